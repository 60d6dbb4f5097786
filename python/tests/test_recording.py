"""Recordings from Python: what was written is what is read, and what the program says of it."""

import copy
import importlib.util
import inspect
import json
import linecache
import pickle

import numpy as np
import pytest
from toy_recording import toy_sessions

import lacuna
from lacuna._program import call

TRANSFORM = """
def doubled(x, session, segment, rate):
    assert session and segment and rate > 0
    return x * 2
"""


@pytest.fixture
def sessions(seed):
    return toy_sessions(seed)


@pytest.fixture
def recording(sessions, tmp_path):
    return lacuna.Recording.write(tmp_path / "rec", sessions)


def test_copies_and_pickles_open_it_again(recording, sessions):
    for other in (copy.deepcopy(recording), pickle.loads(pickle.dumps(recording))):
        assert isinstance(other, lacuna.Recording) and other.fingerprint == recording.fingerprint
        assert np.array_equal(other.sessions[1]["images"]["stim"], sessions["s1"]["segments"]["images"]["stim"])
    saved = pickle.dumps(recording)
    recording.path.rename(recording.path.with_name("old"))
    lacuna.Recording.write(recording.path, toy_sessions(1, sessions=1))
    with pytest.raises(lacuna.Error, match="was pickled; open the recording that you mean"):
        pickle.loads(saved)
    assert list(inspect.signature(lacuna.Recording.write).parameters) == list(
        inspect.signature(lacuna.write_recording).parameters
    )


def test_what_was_written_is_read_without_copies(recording, sessions):
    recording.check()
    assert [s.name for s in recording.sessions] == list(sessions) and len(recording) == 3
    for session in recording.sessions:
        given = sessions[session.name]
        assert (session.subject, session.rate, session.units) == (given["subject"], given["rate"], given["units"])
        for name, fields in given["segments"].items():
            segment = session[name]
            assert len(segment) == len(fields["stim"]) and list(segment.fields) == list(fields)
            for field, values in fields.items():
                assert np.array_equal(segment[field], values, equal_nan=field == "behavior")
                assert segment.fields[field].shape == values.shape
            assert not segment["stim"].flags.owndata and not segment["stim"].flags.writeable
    assert isinstance(recording.sessions[0], lacuna.Session) and isinstance(recording.session("s1")["noise"], lacuna.Segment)
    field = recording.session("s1")["noise"].fields["stim"]
    assert isinstance(field, lacuna.Field) and np.array_equal(field.values, sessions["s1"]["segments"]["noise"]["stim"])
    with pytest.raises(KeyError, match="no segment 'nois'"):
        recording.session("s1")["nois"]
    with pytest.raises(KeyError, match="no field 'stin'"):
        recording.session("s1")["noise"]["stin"]
    assert recording.session("s1")["noise"].fields["dfs"].dtype == "bits"
    assert recording.session("s1")["noise"].fields["robs"].role == "counts"


def test_the_class_opens_a_path_as_open_does(recording):
    for path in (recording.path, str(recording.path)):
        assert [s.name for s in lacuna.Recording(path).sessions] == [s.name for s in recording.sessions]
    with pytest.raises(lacuna.Error, match="nowhere"):
        lacuna.Recording("nowhere")


def test_a_recording_is_written_once(sessions, tmp_path):
    assert lacuna.write_recording(tmp_path / "rec", sessions) is None
    assert len(lacuna.Recording.open(tmp_path / "rec", check=True)) == 3
    with pytest.raises(lacuna.Error, match="already there"):
        lacuna.write_recording(tmp_path / "rec", sessions)


def test_the_program_sees_the_same(recording):
    said = json.loads(call("info", recording.path, "--json", "--check"))
    summary = recording.summary()
    for s, session in enumerate(summary["sessions"]):
        assert session.items() <= said["sessions"][s].items()
    assert summary["fields"] == said["fields"] and summary["bytes"] == said["bytes"] == recording.bytes
    page = recording._repr_html_()
    assert "behaviour" in page and "<td>s2</td>" in page and "bits" in page
    assert "3 sessions" in repr(recording) and recording.fingerprint in call("info", recording.path)


def test_narrow_and_odd_arrays(tmp_path, seed):
    random = np.random.default_rng(seed)
    wide = random.integers(-5, 5, size=(20, 6)).astype(">i2")
    half = random.normal(size=(3, 20)).astype(np.float16).T  # not contiguous
    fields = {"stim": np.zeros((20, 2, 2), np.uint8), "wide": wide, "half": half, "list": list(range(20))}
    roles = {"wide": "other", "half": "behaviour", "list": "trial"}
    path = tmp_path / "odd"
    read = lacuna.Recording.write(path, {"a": {"rate": 10, "segments": {"x": fields}}}, roles=roles).sessions[0]["x"]
    assert read["wide"].dtype == np.int32 and np.array_equal(read["wide"], wide)
    assert read["half"].dtype == np.float32 and np.array_equal(read["half"], half)
    assert np.array_equal(read["list"], range(20))
    grown = lacuna.Recording.write(path, {"b": {"rate": 5, "segments": {"x": fields}}}, roles=roles, add=True)
    assert [session.name for session in grown.sessions] == ["a", "b"]


def test_what_cannot_be_written_is_named(tmp_path, sessions):
    fields = sessions["s0"]["segments"]["noise"]

    def write(fields, **session):
        lacuna.Recording.write(tmp_path / "bad", {"a": {"rate": 1, "segments": {"x": fields}, **session}})

    with pytest.raises(lacuna.UsageError, match="'mine'.*role"):
        write({**fields, "mine": fields["robs"]})
    with pytest.raises(lacuna.UsageError, match="complex64"):
        write({**fields, "behavior": fields["behavior"].astype(np.complex64)})
    with pytest.raises(lacuna.UsageError, match="colour"):
        write(fields, colour="red")
    with pytest.raises(lacuna.UsageError, match="rate"):
        lacuna.Recording.write(tmp_path / "bad", {"a": {"segments": {}}})
    with pytest.raises(lacuna.Error, match="differ in length"):
        lacuna.Recording.write(tmp_path / "other", {"a": {"rate": 1, "segments": {"x": {**fields, "time": fields["time"][1:]}}}})
    with pytest.raises(lacuna.Error, match="no session 's9'"):
        lacuna.Recording.write(tmp_path / "good", {"a": {"rate": 1, "segments": {"x": fields}}}).session("s9")


def test_a_changed_byte_is_found_by_check(recording):
    file = recording.session("s0")["noise"].fields["robs"].file
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(lacuna.Error, match="robs"):
        lacuna.Recording.open(recording.path, check=True)


def test_splits_hold_whole_trials(recording, sessions, tmp_path):
    split = recording.make_split("trials", fractions=(0.5, 0.25, 0.25), seed=3, repeats="apart")
    assert isinstance(split, lacuna.RecordingSplit)
    assert recording.splits == ["trials"] and split.how["by"] == "trial"
    for (session, segment), parts in split.parts.items():
        trial = sessions[session]["segments"][segment]["trial"]
        assert (parts[trial < 0] == 255).all()
        assert all(len(set(parts[trial == number])) == 1 for number in set(trial) - {-1})
    rows = split.rows("train")["s1", "images"]
    assert np.array_equal(rows, np.flatnonzero(split.parts["s1", "images"] == 0)) and "train" in repr(split)
    lists = tmp_path / "lists.json"
    lists.write_text(json.dumps({"train": {"s0": [[0, 50]]}, "test": {"s0/noise": [60, 61]}}))
    given = recording.make_split("given", file=lists)
    assert given.rows("test")["s0", "noise"].tolist() == [60, 61]
    recording.remove_split("trials")
    assert recording.splits == ["given"]
    with pytest.raises(lacuna.Error, match="trials"):
        recording.split("trials")


def test_transforms_of_config_and_function(recording, sessions, tmp_path):
    (tmp_path / "mine.py").write_text(TRANSFORM)
    op = {"python": f"{tmp_path / 'mine.py'}:doubled"}
    config = {
        "gaze": {"from": "behavior", "ops": [{"columns": {"take": [0, 1]}}]},
        "mine": {"from": "behavior", "ops": [op], "role": "behaviour"},
    }
    made = recording.transform(tmp_path / "made", config, sessions=["s0", "s1"])
    assert [session.name for session in made.sessions] == ["s0", "s1"]
    for session in made.sessions:
        for name, segment in session.segments.items():
            behavior = sessions[session.name]["segments"][name]["behavior"]
            assert np.array_equal(segment["gaze"], behavior[:, :2], equal_nan=True)
            assert np.array_equal(segment["mine"], behavior * 2, equal_nan=True)
            assert segment.fields["stim"].in_place
    with pytest.raises(lacuna.UsageError, match="plain function with a name"):
        recording.transform(tmp_path / "none", {"mine": {"from": "stim", "ops": [{"python": lambda x, **_: x}]}})
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
    mine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mine)
    ops = [{"python": mine.doubled}]  # the function itself is named as in its file
    made = recording.transform(tmp_path / "own", {"mine": {"from": "behavior", "ops": ops, "role": "behaviour"}})
    behavior = sessions["s0"]["segments"]["noise"]["behavior"]
    assert np.array_equal(made.session("s0")["noise"]["mine"], behavior * 2, equal_nan=True)
    assert not (tmp_path / "own.functions").exists()
    slow = recording.transform(tmp_path / "slow", step=2)
    assert slow.sessions[0].rate == 60


def in_a_notebook(source):
    """The names that a cell of a notebook leaves: its source is known to linecache, and in no file."""
    cell = "<cell of a test>"
    names = {"np": np, "shift": 3, "__name__": "__main__"}
    linecache.cache[cell] = (len(source), None, source.splitlines(keepends=True), cell)
    exec(compile(source, cell, "exec"), names)
    return names


def test_a_function_of_a_notebook(recording, sessions, tmp_path):
    names = in_a_notebook("def mine(stim, rate):\n    return np.float32(stim.mean((1, 2)) + rate)[:, None]\n\n"
                          "def shifted(stim):\n    return stim + shift\n")
    config = {"light": {"from": "stim", "ops": [{"python": names["mine"]}], "role": "behaviour"}}
    for _ in range(2):  # the second time everything is there already
        made = recording.transform(tmp_path / "made", config)
    for session in made.sessions:
        for name, segment in session.segments.items():
            stim = sessions[session.name]["segments"][name]["stim"]
            assert np.allclose(segment["light"][:, 0], stim.mean((1, 2)) + session.rate, rtol=1e-6)
    assert (tmp_path / "made.functions" / "mine.py").read_text().startswith("import numpy as np\n")
    call("verify", made.path)
    with pytest.raises(lacuna.UsageError, match=r"shifted\(\) uses shift of the notebook"):
        recording.transform(tmp_path / "none", {"x": {"from": "stim", "ops": [{"python": names["shifted"]}]}})
    assert not (tmp_path / "none").exists()


def test_generate_and_import(tmp_path):
    made = lacuna.Recording.generate(tmp_path / "made", sessions=1, minutes=0.1, seed=1, side=17, units=3)
    session = made.sessions[0]
    assert session["images"]["stim"].shape[1:] == (17, 17) and len(session.units) == 3
    assert made.truth(session.name, "spatial").shape == (3, 17, 17) and made.truth(session.name, "none") is None
    folder = tmp_path / "raw" / "m1" / "movie"
    folder.mkdir(parents=True)
    np.save(folder / "stim.npy", session["images"]["stim"])
    np.save(folder / "robs.npy", session["images"]["robs"])
    got = lacuna.import_recording(tmp_path / "imported", tmp_path / "raw", rate=120)
    assert np.array_equal(got.sessions[0].segments["movie"]["stim"], session["images"]["stim"])
