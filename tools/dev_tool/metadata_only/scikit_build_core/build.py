"""A build back end that only names its package: enough for `pip download` of a source archive."""

import os
from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name, version = os.environ["SDIST_NAME"], os.environ["SDIST_VERSION"]
    folder = Path(metadata_directory) / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise RuntimeError("this back end only gives metadata")
