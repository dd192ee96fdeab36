import subprocess
import sys
from dataclasses import fields

import pytest

from evigrad.data import DATASETS, DataError, Decoding, Info, info, load, names, options


def test_names_and_what_is_known_of_them():
    assert names()[0] == "digits"
    assert {"avdigits", "scene15", "ravdess_av", "mosi_features", "emoji_image_text", "views", "table"} <= set(names())
    for name in names():
        assert isinstance(info(name), Info)
        assert info(name).name == name
        assert info(name).title
        assert info(name).licence
        assert info(name).source


def test_options_are_the_loaders_keywords():
    assert list(options("scene15")) == ["root", "seed", "validation", "scaling"]
    assert all(
        parameter.kind.name == "KEYWORD_ONLY" for n in DATASETS if n != "table" for parameter in options(n).values()
    )
    own = ["path", "label", "columns", "split", "seed", "validation", "test"]
    assert list(options("table")) == [*own, *(field.name for field in fields(Decoding))]


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(DataError, match=r"unknown data set 'digit'. Did you mean 'digits'\? Known: avdigits"):
        load("digit")
    with pytest.raises(DataError, match=r"unknown data set 'scene'. Did you mean 'scene15'\?"):
        info("scene")
    with pytest.raises(DataError, match=r"unknown option of data set 'digits': 'sead'. Did you mean 'seed'\?"):
        load("digits", sead=1)


def test_where_released_sets_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("EVIGRAD_DATA", raising=False)
    with pytest.raises(DataError, match=r"where is it\? Pass root=... or set the environment variable EVIGRAD_DATA"):
        load("scene15")
    monkeypatch.setenv("EVIGRAD_DATA", str(tmp_path))
    with pytest.raises(
        DataError, match=r"no scene15.npz in .*scene15 or .*; point root=... \(or EVIGRAD_DATA\) there, or run prepare"
    ):
        load("scene15")


def test_importing_brings_no_heavy_package():
    heavy = "{'PIL', 'pandas', 'pyarrow', 'soundfile', 'scipy', 'sklearn', 'safetensors'}"
    code = f"import sys, evigrad.data; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_bundled_data_needs_no_numpy():
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "from evigrad.data import load, batches\n"
        "print(next(iter(batches(load('digits').train, 4))).inputs['pixels'].shape[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "240", done.stderr
