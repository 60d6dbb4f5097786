"""Every model of lacuna/nn agrees with the same model written anew in plain PyTorch and PyG (bench/plain_models.py):
predictions, loss, the gradient of every parameter, and the weights after 20 steps of AdamW, all in f64."""

import json
import pathlib
import random
import subprocess
import sys

import numpy
import pytest
from program import BUILD, succeed
from seeds import seed_of

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))
import plain_models  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def in_f64():
    """The oracle computes in f64; other tests of the same process do not."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)

PROBE = BUILD / "model_probe"
STEPS = 20


def hetero_gin(**settings):
    return {"name": "hetero_gin", "width": 16, "layers": 2, "dropout": 0, **settings}


UNSEEN = [0, 7, 39]

# name: settings, and what of a case differs from the usual one
CASES = {
    **{
        f"{merge}-{norm}": (hetero_gin(merge=merge, norm=norm), {})
        for merge in ("sum", "mean", "attention", "pairwise")
        for norm in ("layer", "batch_graph")
    },
    **{f"output-{output}": (hetero_gin(output=output), {}) for output in ("gate", "global", "local")},
    **{f"features-{features}": (hetero_gin(features=features), {}) for features in ("beside", "instead")},
    "metabolism-sum": (hetero_gin(metabolism=True), {}),
    "metabolism-pairwise": (hetero_gin(metabolism=True, merge="pairwise"), {}),
    "metabolism-batch_graph": (hetero_gin(metabolism=True, merge="attention", norm="batch_graph"), {}),
    "labels-average": (hetero_gin(), {"labels": 3}),
    "labels-gate": (hetero_gin(output="gate", merge="mean"), {"labels": 3}),
    "plain-form": (hetero_gin(metabolism=True, merge="pairwise", savings=False), {}),
    **{
        f"dropout-{name}": (hetero_gin(dropout=0.4, **settings), {})
        for name, settings in {
            "layer": dict(),
            "batch_graph": dict(norm="batch_graph"),
            "plain-form": dict(metabolism=True, savings=False),
        }.items()
    },
    "dango": (dict(name="dango", width=16), {"loss": "log_cosh", "epoch": 4}),
    "dango-first": (dict(name="dango", width=16, zero_weight=0.3), {"loss": "log_cosh", "epoch": 1}),
    "dango-last": (dict(name="dango", width=16), {"loss": "mse", "epoch": 40, "labels": 2}),
    "mlp": (dict(name="mlp", width=16, dropout=0), {"labels": 2}),
    **{
        f"weights-{name}": (hetero_gin(**settings), {})
        for name, settings in {
            "values": dict(weights="values"),
            "normalised": dict(weights="normalised", merge="pairwise"),
            "plain-form": dict(weights="values", savings=False),
            "local": dict(weights="normalised", output="local"),
            "batch_graph": dict(weights="normalised", norm="batch_graph"),
        }.items()
    },
    "local-wild_type": (hetero_gin(local="wild_type"), {"labels": 2}),
    "local-wild_type-alone": (hetero_gin(local="wild_type", output="local", layers=1), {}),
    "local-neighbours": (hetero_gin(local="neighbours", weights="normalised"), {}),
    "local-neighbours-alone": (hetero_gin(local="neighbours", output="local", savings=False), {"labels": 2}),
    **{
        f"wild_type-{name}": (dict(name="wild_type", width=16, dropout=0, **settings), {"labels": 2})
        for name, settings in {
            "usual": dict(),
            "values": dict(weights="values", layers=1),
            "none": dict(weights="none", layers=3, features="beside"),
            "instead": dict(features="instead"),
        }.items()
    },
    **{
        f"factors-{name}": (dict(name="factors", width=16, **settings), {"labels": 2})
        for name, settings in {
            "usual": dict(similar=40),
            "products": dict(similar=0, head_width=0, weights="none"),
            "features": dict(similar=40, features="beside", weights="values", shrink=0.5),
        }.items()
    },
    **{
        f"hidden-{name}": (model, {"epoch": 4, "hidden": dict(unseen=UNSEEN, probability=p, training=training)})
        for name, model, p, training in (
            ("hetero_gin", hetero_gin(features="beside"), 0.3, True),
            ("predicting", hetero_gin(local="wild_type"), 0.3, False),
            ("wild_type", dict(name="wild_type", width=16, dropout=0), 0.6, True),
            ("factors", dict(name="factors", width=16, similar=40), 0.3, True),
            ("factors-predicting", dict(name="factors", width=16, similar=40, features="beside"), 0.3, False),
            ("dango", dict(name="dango", width=16), 0.3, True),
            ("mlp", dict(name="mlp", width=16, dropout=0), 0.3, True),
        )
    },
    # As in a training, no sample removes an unseen gene: factors then computes the others alone.
    **{
        f"training-factors-{name}": (
            dict(name="factors", width=16, **settings),
            {"without": UNSEEN, "hidden": dict(unseen=UNSEEN, probability=0.3, training=True)},
        )
        for name, settings in {"usual": dict(similar=40), "features": dict(similar=0, features="beside", weights="none")}.items()
    },
}


def make_case(model, draw, loss="mse", epoch=0, labels=1, without=(), **others):
    """Samples of all kinds: three genes, two, one, none, many, repeats, and every gene. Enough of them that a pairwise
    merge takes its rows in more than one block."""
    genes = [gene for gene in range(40) if gene not in without]
    removed = [draw.sample(genes, k) for k in (3, 3, 3, 3, 3, 3, 2, 2, 1, 0, 12)]
    removed += [[*removed[0], removed[0][1]], draw.sample(genes, len(genes))]
    values = [[draw.gauss(0, 1) for _ in range(labels)] for _ in removed]
    return dict(model=model, removed=removed, labels=values, loss=loss, epoch=epoch, steps=STEPS, **others)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """What the probe was asked, and where its answers lie: one process for all cases."""
    if not PROBE.exists():
        pytest.skip(f"no {PROBE}; build with torch and tests")
    seed = seed_of("test_oracle")
    draw = random.Random(seed)
    folder = tmp_path_factory.mktemp("oracle")
    succeed("generate", "screen", folder / "screen", "--size", "tiny", "--seed", draw.randrange(1000))
    features = numpy.random.default_rng(seed).standard_normal((40, 5)).astype(numpy.float32)
    numpy.save(folder / "features.npy", features)
    names = sorted(file.name.split(".")[1] for file in (folder / "screen/edges").glob("gene.*.gene.npy"))
    values = {}
    for name in names[1:]:  # the first network has none
        count = numpy.load(folder / f"screen/edges/gene.{name}.gene.npy").shape[1]
        weights = numpy.random.default_rng([seed, len(values)]).uniform(0.1, 3, count).astype(numpy.float32)
        numpy.save(folder / f"{name}.npy", weights)
        values[name] = str(folder / f"{name}.npy")
    cases = {name: make_case(model, draw, **others) for name, (model, others) in CASES.items()}
    asked = dict(screen=str(folder / "screen"), features=str(folder / "features.npy"), values=values, cases=cases)
    (folder / "job.yaml").write_text(json.dumps(asked))  # JSON is YAML
    done = subprocess.run([PROBE, folder / "job.yaml", folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    asked["screen"] = plain_models.Screen(asked["screen"], asked["features"], asked["values"])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors are tiny, and idle threads would wait at full speed
    yield dict(**asked, folder=folder, seed=seed)
    torch.set_num_threads(threads)


def differences(ours, oracle, bound):
    """The tensors by name that differ by more than `bound` of their norm; of one near zero, by more than 1e-12 of all of
    them together. (Attention does not feel the bias of its keys, so the gradient of that is rounding alone.)"""
    assert ours.keys() == oracle.keys()
    near_zero = 1e-12 * sum(tensor.norm().item() for tensor in oracle.values())
    found = {}
    for name, expected in oracle.items():
        assert ours[name].shape == expected.shape, name
        apart = (ours[name] - expected).norm().item()
        if not apart <= max(bound * expected.norm().item(), near_zero):
            found[name] = (apart, expected.norm().item())
    return found


def part(answer, prefix):
    return {name[len(prefix) :]: value for name, value in answer.items() if name.startswith(prefix)}


@pytest.mark.parametrize("name", CASES)
def test_model_agrees_with_the_oracle(job, name):
    case, screen = job["cases"][name], job["screen"]
    answer = plain_models.read_safetensors(job["folder"] / f"{name}.safetensors")
    settings = case["model"]
    if "hidden" in case:
        settings = {**settings, "hidden": answer["hidden"] > 0, "unseen": UNSEEN}
        hidden = set(answer["hidden"].nonzero().flatten().tolist())
        assert hidden >= set(UNSEEN) and (len(hidden) > len(UNSEEN)) == case["hidden"]["training"]
    weights = {key: value.requires_grad_() for key, value in part(answer, "weight/").items()}
    assert len(weights) >= 5
    prediction, loss = plain_models.total_loss(weights, screen, settings, case)
    loss.backward()
    found = dict(prediction=answer["prediction"], loss=answer["loss"])
    seed = f"seed {job['seed']}"
    assert differences(found, dict(prediction=prediction.detach(), loss=loss.detach()), 1e-9) == {}, seed
    assert all(weight.grad is not None for weight in weights.values()), "a weight is not used"
    gradients = {key: value.grad.clone() for key, value in weights.items()}
    assert differences(part(answer, "gradient/"), gradients, 1e-5) == {}, seed
    assert sum(gradient.norm() > 1e-6 for gradient in gradients.values()) > 0.7 * len(gradients), "nothing to compare"

    optimiser = torch.optim.AdamW(weights.values(), lr=1e-3, eps=1e-6)
    for _ in range(STEPS):
        optimiser.zero_grad()
        plain_models.total_loss(weights, screen, settings, case)[1].backward()
        optimiser.step()
    after = {key: value.detach() for key, value in weights.items()}
    assert differences(part(answer, "after/"), after, 1e-5) == {}, seed
