"""Reads a seed with cloud-init's own code and prints what it made of it as JSON. Changes nothing outside its folder.

    cloud_init_itself.py FOLDER     FOLDER/seed/nocloud/ has the seed's files
"""

import io
import json
import logging
import os
import sys
from contextlib import redirect_stdout

from cloudinit import handlers, helpers
from cloudinit.config import schema
from cloudinit.distros import rhel
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.jinja_template import JinjaTemplatePartHandler
from cloudinit.handlers.shell_script import ShellScriptPartHandler
from cloudinit.net import eni, netplan, network_state, networkd, sysconfig
from cloudinit.settings import PER_INSTANCE
from cloudinit.sources import DataSourceNoCloud

folder = sys.argv[1]
warnings = []


class Keep(logging.Handler):
    def emit(self, record):
        reason = f": {record.exc_info[1]!r}" if record.exc_info else ""
        warnings.append(record.getMessage() + reason)


logging.getLogger().addHandler(Keep(level=logging.WARNING))

paths = helpers.Paths({"cloud_dir": folder, "run_dir": os.path.join(folder, "run")})
# Without a label to look for, no disk of this machine is searched.
config = {"datasource": {"NoCloud": {"fs_label": None}}}
source = DataSourceNoCloud.DataSourceNoCloud(config, None, paths)
assert source._get_data(), "not taken for a seed"
paths.datasource = source
instance = paths.get_ipath()
for name in ["scripts", "sem", "scripts/vendor", "handlers"]:
    os.makedirs(os.path.join(instance, name), exist_ok=True)
os.symlink(instance, paths.instance_link)
os.makedirs(paths.run_dir, exist_ok=True)


def consume(message, config_path, script_path):
    """What stages.Init does with each part, less boot hooks, which would run here."""
    config = CloudConfigPartHandler(paths, cloud_config_path=config_path)
    script = ShellScriptPartHandler(paths, script_path=script_path)
    known = {kind: handler for handler in [config, script] for kind in handler.list_types()}
    known["text/jinja2"] = JinjaTemplatePartHandler(paths, sub_handlers=[config, script])
    for handler in [config, script]:
        handlers.call_begin(handler, None, PER_INSTANCE)
    seen = {
        "handlers": known,
        "handlerdir": os.path.join(instance, "handlers"),
        "data": None,
        "frequency": PER_INSTANCE,
        "handlercount": 0,
        "excluded": [],
    }
    handlers.walk(message, handlers.walker_callback, data=seen)
    for handler in [config, script]:
        handlers.call_end(handler, None, PER_INSTANCE)


def parts(message):
    return [
        {"type": part.get_content_type(), "name": part.get_filename(), "size": len(part.get_payload(decode=True) or b"")}
        for part in message.walk()
        if part.get_content_maintype() != "multipart"
    ]


def texts(under):
    found = {}
    for name in sorted(os.listdir(under)):
        path = os.path.join(under, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                found[name] = file.read().decode("utf-8", "backslashreplace")
    return found


with open(paths.get_runpath("instance_data_sensitive"), "w") as file:
    json.dump({"ds": {"meta_data": source.metadata}, "v1": {}}, file)
user, vendor = source.get_userdata(), source.get_vendordata()
consume(vendor, "vendor_cloud_config", "vendor_scripts")
consume(user, "cloud_config", "scripts")
merged = helpers.ConfigMerger(paths=paths, datasource=source, base_cfg={}, include_vendor=True).cfg
# NoCloud itself brings these; they are not of the seed.
merged = {key: value for key, value in merged.items() if key not in ("system_info",)}

with redirect_stdout(io.StringIO()):
    schema.validate_cloudconfig_schema(merged, schema=schema.get_schema(), strict=True)

settings = {"eni": {}, "netplan": {}, "networkd": {}, "sysconfig": rhel.Distro.renderer_configs["sysconfig"]}
rendered = {}
if source.network_config:
    for name, module in [("eni", eni), ("netplan", netplan), ("networkd", networkd), ("sysconfig", sysconfig)]:
        state = network_state.parse_net_config_data(source.network_config)
        target = os.path.join(folder, "rendered", name)
        module.Renderer(settings[name]).render_network_state(state, target=target)
        rendered[name] = ""
        for at, _, names in sorted(os.walk(target)):
            for file in sorted(names):
                with open(os.path.join(at, file)) as text:
                    rendered[name] += f"### {os.path.relpath(os.path.join(at, file), target)}\n{text.read()}"

json.dump(
    {
        "meta": source.metadata,
        "user_parts": parts(user),
        "vendor_parts": parts(vendor),
        "config": merged,
        "scripts": texts(os.path.join(instance, "scripts")),
        "vendor_scripts": texts(os.path.join(instance, "scripts", "vendor")),
        "rendered": rendered,
        "warnings": warnings,
    },
    sys.stdout,
    default=str,
)
