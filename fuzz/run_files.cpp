// A run with one damaged file (damaged.h), as the report reads it.
#include "lacuna/report/report.h"

#include "fuzz/damaged.h"
#include "lacuna/store/npy.h"

using namespace lacuna;

namespace {

constexpr const char* kFiles[][2] = {
    {"config.yaml", "screen: s\nsplit: random\nmodel:\n  name: mlp\n"},
    {"run.json",
     R"({"format": "lacuna.run", "version": 1, "status": "finished", "message": null,
 "command": "lacuna train", "lacuna": "0.1.0", "device": "cpu", "parameters": 12,
 "screen": {"path": "s", "fingerprint": {"genes": "0123456789abcdef"}, "samples": 4, "genes": 3,
 "edges": 2}, "started": "2026-11-15T12:00:00Z", "ended": "2026-11-15T12:34:56Z"})"},
    {"metrics.jsonl",
     R"({"kind": "step", "epoch": 0, "step": 1, "loss": 0.5, "lr": 0.001, "seconds": 0.1}
{"kind": "epoch", "epoch": 0, "step": 1, "train_loss": 0.5, "seconds": 0.2,)"
     R"( "validation": {"y": {"count": 2, "pearson": 0.5, "spearman": 0.5, "mse": 1.0}}}
)"},
    {"evaluation.json",
     R"({"format": "lacuna.evaluation", "version": 1, "split": "random", "checkpoint": "last",
 "bootstrap": {"rounds": 30, "level": 0.95}, "parts": {"test": {"samples": 4, "labels": {"y": {
 "model": {"count": 4, "pearson": 0.9, "spearman": 0.8, "mse": 0.1,
   "interval": {"pearson": [0.1, 0.95], "spearman": null, "mse": [0.05, 0.2]}},
 "baselines": {"mean": {"count": 4, "pearson": null, "spearman": null, "mse": 1.0}}}}}}})"},
    {"profile.json",
     R"({"format": "lacuna.profile", "version": 1, "device": "cpu", "steps": 5, "batch": 2,
 "wall_ms_per_step": 3.5, "cpu": [{"category": "load", "ms": 1.0, "share": 0.3}], "gpu": [],
 "largest": "Load takes the most."})"},
    {"ladder.json",
     R"({"format": "lacuna.ladder", "version": 1, "machine": "m", "samples": 4, "batch": 2,
 "rungs": [{"rung": "kernel", "samples_per_s": 100.0, "ms_per_batch": 20.0, "exact": true}],
 "peers": [{"name": "copies", "samples_per_s": 4.0, "ms_per_batch": 500.0}]})"}};

fs::path write_whole(const fs::path& run) {
  fs::create_directories(run / "predictions");
  for (const auto& [name, text] : kFiles) fuzz::write_file(run / name, text);
  const std::vector<float> predicted = {0, 1, 2, 3}, measured = {0, 1.5, 1, 4};
  write_npy(run / "predictions/test.sample.npy", Array::from(std::vector<uint32_t>{0, 1, 2, 3}));
  write_npy(run / "predictions/test.predicted.npy", Array::from(predicted, {4, 1}));
  write_npy(run / "predictions/test.measured.npy", Array::from(measured, {4, 1}));
  return run;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::MemoryDirectory directory;
  static const fuzz::Damaged run(write_whole(directory / "run"));
  run.read(data, size,
           [&] { fuzz::reads([&] { write_report({run.path()}, directory / "report.html"); }); });
  return 0;
}
