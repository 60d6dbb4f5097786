"""CoreReadout (lacuna/nn/models/core_readout.h) agrees with the same model written anew in plain PyTorch: rates, loss, the
gradient of every parameter, and the weights after 20 steps of AdamW, all in f64."""

import json
import pathlib
import subprocess
import sys

import numpy
import pytest
from program import BUILD
from seeds import seed_of

torch = pytest.importorskip("torch")
sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench"))
import plain_models  # noqa: E402

PROBE = BUILD / "model_probe"
STEPS = 20
SESSIONS = [dict(units=5, inputs=3, windows=4), dict(units=2, inputs=0, windows=3), dict(units=7, inputs=6, windows=1)]
MODEL = dict(name="core_readout", channels=6, temporal=4, kernel=3, first_kernel=5, behaviour_width=5)


LAGS = 7


def write_data(folder, draw, rows):
    """Windows of `rows` target rows, and the same as one window a row, oldest row first."""
    windows = sum(session["windows"] for session in SESSIONS)
    stimulus = draw.integers(0, 256, (windows, LAGS + rows - 1, 11, 13), dtype=numpy.uint8)
    numpy.save(folder / "stimulus.npy", stimulus)
    single = numpy.concatenate([window[None, rows - 1 - r:rows - 1 - r + LAGS] for window in stimulus for r in range(rows)])
    parts = []
    for s, session in enumerate(SESSIONS):
        shape = (session["windows"] * rows, session["units"])
        counts = draw.poisson(0.7, shape).astype(float)
        validity = (draw.random(shape) < 0.7).astype(numpy.uint8)
        counts[validity == 0] = numpy.nan  # what is invalid may be anything
        inputs = draw.standard_normal((shape[0], session["inputs"]))
        for name, array in dict(counts=counts, validity=validity, inputs=inputs).items():
            numpy.save(folder / f"{name}{s}.npy", array)
        parts.append((torch.tensor(counts), torch.tensor(validity), torch.tensor(inputs)))
    return torch.tensor(single), parts


def rates_of(weights, stimulus, parts, stride):
    """One window and one unit at a time, with a Gaussian written out."""
    x = (stimulus.double() - 127) / 255
    x = torch.nn.functional.conv3d(x[:, None], weights["temporal"][:, None, :, :, 0][..., None])[:, :, 0]
    layer = 0
    while f"kernel{layer}" in weights:
        kernel = weights[f"kernel{layer}"]
        x = torch.nn.functional.conv2d(x, kernel, weights[f"bias{layer}"], stride=stride if layer == 0 else 1,
                                       padding=kernel.shape[-1] // 2)
        x = 0.5 * x * (1 + torch.erf(x / 2**0.5))
        layer += 1
    rows, columns = torch.linspace(-1, 1, x.shape[2]).double(), torch.linspace(-1, 1, x.shape[3]).double()
    found, first = [], 0
    for s, (counts, _, inputs) in enumerate(parts):
        own = {name.split(".", 1)[1]: value for name, value in weights.items() if name.startswith(f"readout s{s}.")}
        drives = []
        for window in range(first, first + len(counts)):
            for unit in range(counts.shape[1]):
                (y0, x0), sd = own["position"][unit], own["log_sd"][unit].exp()
                gauss = torch.exp(-((rows[:, None] - y0) ** 2 + (columns[None] - x0) ** 2) / (2 * sd**2))
                seen = (x[window] * gauss).sum((1, 2)) / gauss.sum()
                drives.append(seen @ own["weight"][unit] + own["bias"][unit])
        drive = torch.stack(drives).reshape(counts.shape)
        if inputs.shape[1]:
            hidden = torch.nn.functional.gelu(inputs @ own["first.weight"] + own["first.bias"])
            drive = drive + hidden @ own["second.weight"] + own["second.bias"]
        found.append(torch.log1p(torch.exp(drive)) + 1e-6)
        first += len(counts)
    return found


def loss_of(rates, parts):
    terms = []
    for rate, (counts, validity, _) in zip(rates, parts):
        for b, u in validity.nonzero().tolist():
            terms.append(rate[b, u] - counts[b, u] * torch.log(rate[b, u]))
    return torch.stack(terms).mean()


def far_apart(ours, oracle, bound=1e-5):
    assert ours.keys() == oracle.keys()
    return {name: (ours[name] - value).norm().item() / value.norm().item() for name, value in oracle.items()
            if ours[name].shape != value.shape or not (ours[name] - value).norm() <= bound * value.norm()}


def part(answer, prefix):
    return {name[len(prefix):]: value for name, value in answer.items() if name.startswith(prefix)}


@pytest.mark.parametrize("settings,rows", [(dict(layers=1), 1), (dict(layers=3), 1), (dict(layers=2, stride=2), 1),
                                           (dict(layers=2), 3)], ids=str)
def test_core_readout_agrees_with_the_oracle(tmp_path, settings, rows):
    if not PROBE.exists():
        pytest.skip(f"no {PROBE}; build with torch and tests")
    seed = seed_of(f"core_readout {settings}")
    stimulus, parts = write_data(tmp_path, numpy.random.default_rng(seed), rows)
    job = dict(recording=str(tmp_path), model={**MODEL, **settings}, sessions=SESSIONS, rows=rows, steps=STEPS)
    (tmp_path / "job.yaml").write_text(json.dumps(job))  # JSON is YAML
    done = subprocess.run([PROBE, tmp_path / "job.yaml", tmp_path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer = plain_models.read_safetensors(tmp_path / "recording.safetensors")
    weights = {name: value.clone().requires_grad_() for name, value in part(answer, "weight/").items()}
    assert len(weights) > 10

    rates = rates_of(weights, stimulus, parts, settings.get("stride", 1))
    loss = loss_of(rates, parts)
    loss.backward()
    ours = {str(s): answer[f"prediction{s}"] for s in range(len(parts))}
    assert far_apart(ours, {str(s): rate.detach() for s, rate in enumerate(rates)}) == {}
    assert abs(answer["loss"].item() - loss.item()) <= 1e-5 * abs(loss.item())
    assert far_apart(part(answer, "gradient/"), {name: value.grad for name, value in weights.items()}) == {}

    optimiser = torch.optim.AdamW(weights.values(), lr=1e-3, eps=1e-6)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss_of(rates_of(weights, stimulus, parts, settings.get("stride", 1)), parts).backward()
        optimiser.step()
    assert far_apart(part(answer, "after/"), {name: value.detach() for name, value in weights.items()}) == {}
