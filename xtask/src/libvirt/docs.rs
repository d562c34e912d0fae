//! One line about each field, in our words.

use super::names;

/// What a field is, from its name.
pub(crate) fn field(name: &str, owner: &str) -> String {
    let known = match name {
        "dom" => "The domain.",
        "vol" => "The storage volume.",
        "pool" if owner.contains("nonnull") => "Name of the pool that holds it.",
        "pool" => "The storage pool.",
        "net" => "The network.",
        "snap" => "The snapshot.",
        "checkpoint" => "The checkpoint.",
        "secret" => "The secret.",
        "iface" => "The interface.",
        "dev" => "The device.",
        "nwfilter" => "The network filter.",
        "port" => "The network port.",
        "uuid" => "The UUID, 16 raw bytes.",
        "id" => "Number of the running instance; -1 when there is none.",
        "name" => "The name.",
        "flags" => "Flags; an unknown one is refused by the daemon.",
        "xml" | "xmlDesc" => "The XML document.",
        "need_results" => "1 to get the list, 0 to get only its length.",
        "nparams" => "How many parameters there is room for; 0 asks for the number only.",
        "params" => "The typed parameters.",
        "callbackID" => "Id of the subscription, unique within its class.",
        "eventID" => "Which event.",
        "cookie" | "cookie_in" => "The migration cookie so far.",
        "cookie_out" => "The migration cookie to pass on.",
        "maxnames" => "How many names there is room for.",
        "names" => "The names.",
        "num" => "The number of them.",
        "ret" => "What the call returned: a count or a code.",
        "result" => "What the call returned.",
        "timeout" => "Seconds to wait; negative values have the meaning the call gives them.",
        "path" => "The path, or the target name of a device.",
        "disk" => "The disk: its target name or source path.",
        "bandwidth" => "Bandwidth, in the unit the call or its flags say.",
        "offset" => "Where to begin, in bytes.",
        "length" | "size" => "Length in bytes, unless the flags say otherwise.",
        "code" => "The error number.",
        "domain" => "The part of libvirt that raised the error.",
        "message" => "What happened, for people.",
        "level" => "The severity.",
        "field" => "The parameter's name.",
        "value" => "The value.",
        _ => "",
    };
    if known.is_empty() {
        return format!("`{name}`: {}.", names::snake(name).replace('_', " "));
    }
    known.to_owned()
}

/// What a struct is, from its name and the procedure it belongs to.
pub(crate) fn structure(name: &str, procedure: Option<(i64, &str)>) -> String {
    match (procedure, name.rsplit('_').next()) {
        (Some((number, call)), Some("args")) => {
            format!("Arguments of procedure {number}, `{call}`.")
        }
        (Some((number, call)), Some("ret")) => format!("Reply of procedure {number}, `{call}`."),
        (Some((number, call)), _) => format!("Event {number}, `{call}`."),
        (None, _) => format!("`{name}` on the wire."),
    }
}
