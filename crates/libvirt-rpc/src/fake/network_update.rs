//! Changing a network without a restart: the hosts its DHCP server knows.

use super::{
    call::{Call, Refusal},
    world::World,
    xml::{Description, child},
};
use crate::wire::{
    constant::network::{NetworkUpdateCommand as Command, NetworkUpdateSection as Section},
    remote::network::{NetworkUpdate, NetworkUpdateArgs},
};

/// Since when command and section come in this order.
pub(super) const CORRECT_ORDER: u64 = 7_002_000;

pub(super) fn answer(call: &mut Call<'_>) {
    call.on::<NetworkUpdate>(|world, args| update(world, &args));
}

fn update(world: &mut World, args: &NetworkUpdateArgs) -> Result<(), Refusal> {
    let (mut command, mut section) = (args.command.cast_signed(), args.section.cast_signed());
    if world.host.version < CORRECT_ORDER {
        std::mem::swap(&mut command, &mut section);
    }
    if Section(section) != Section::IP_DHCP_HOST {
        return Err(Refusal::argument(format!(
            "unrecognized section name '{section}', the fake knows the hosts of DHCP"
        )));
    }
    let host = args.xml.to_string_lossy().into_owned();
    let described = Description::parse(&host, "host")?;
    let mac = described.root().attribute("mac").unwrap_or_default().to_owned();
    let network = world.network_mut(&args.net)?;
    let description = Description::parse(&network.xml, "network")?;
    let name = description.name()?;
    let dhcp = description.all("dhcp").next();
    let dhcp = dhcp.ok_or_else(|| {
        let message = format!("couldn't find an <ip> element with dhcp in network '{name}'");
        Refusal::invalid(format!("Requested operation is not valid: {message}"))
    })?;
    let known = dhcp.children().find(|host| host.attribute("mac") == Some(&*mac));
    let (range, new) = match (Command(command), known) {
        (Command::ADD_LAST | Command::ADD_FIRST, None) => {
            let range = child(dhcp, "range").map(|range| range.range());
            let range = range.ok_or_else(|| Refusal::invalid("there is no range"))?;
            (range.end..range.end, host)
        }
        (Command::ADD_LAST | Command::ADD_FIRST, Some(_)) => {
            let message = format!("there is an existing dhcp host entry in network '{name}' that matches \"{host}\"");
            return Err(Refusal::invalid(format!("Requested operation is not valid: {message}")));
        }
        (Command::MODIFY, Some(known)) => (known.range(), host),
        (Command::DELETE, Some(known)) => (known.range(), String::new()),
        (Command::MODIFY | Command::DELETE, None) => {
            let message = format!("couldn't locate a matching dhcp host entry in network '{name}'");
            return Err(Refusal::invalid(format!("Requested operation is not valid: {message}")));
        }
        (other, _) => {
            return Err(Refusal::argument(format!(
                "unrecognized network update command code {}",
                other.0
            )));
        }
    };
    let mut xml = network.xml.clone();
    xml.replace_range(range, &new);
    network.xml = xml;
    Ok(())
}
