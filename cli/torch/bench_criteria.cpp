// `lacuna bench criteria`: six questions about every rung, answered on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "cli/python_script.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/owned_settings.h"
#include "cli/torch_calls.h"
#include "cli/workshop.h"
#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/json.h"
#include "lacuna/measure/criteria.h"

namespace lacuna::cli {
namespace {

// A step of the usual form on the same screen, batch and model, timed by bench/step.py.
void measure_usual(const BenchCriteriaCall& call, const fs::path& folder,
                   CriteriaSettings& criteria) {
  const Config config = criteria_config(call.screen, criteria);
  const auto model = [&](const char* key, const char* otherwise) {
    return config.model[key] ? config.model[key].as<std::string>() : otherwise;
  };
  const fs::path json = folder / "usual.json";
  try {
    const std::map<std::string, std::string> as_there = {
        {"name", "hetero_gin"}, {"merge", "sum"},     {"norm", "layer"},      {"output", "global"},
        {"dropout", "0"},       {"features", "none"}, {"metabolism", "false"}};
    for (const auto& [key, value] : as_there)
      if (model(key.c_str(), value.c_str()) != value)
        throw Error("it is there with model.{} {} only", key, value);
    const at::Device device = choose_device(config.train.device, [](const std::string&) {});
    PythonScript script("step.py", call.python,
                        {"--lacuna",    fs::read_symlink("/proc/self/exe").string(),
                         "--screen",    (folder / "slice").string(),
                         "--batch",     std::to_string(criteria.batch),
                         "--form",      "usual",
                         "--merge",     "sum",
                         "--steps",     std::to_string(criteria.steps),
                         "--width",     model("width", "64"),
                         "--layers",    model("layers", "3"),
                         "--precision", config.train.precision,
                         "--device",    device.is_cuda() ? "cuda" : "cpu",
                         "--json",      json.string()});
    for (std::string line; script.read_line(line);) continue;
    if (const int status = script.end(); status != 0)
      throw Error("{} failed with status {}", script.path().string(), status);
  } catch (const Error& error) {
    criteria.without_usual = error.what();
    return;
  }
  criteria.without_usual = "a step of Lacuna's did not fit beside it";
  for (const Json& one : read_json(json)) {
    if (one.at("form") != "usual") continue;
    if (!one.at("fits").get<bool>()) {
      criteria.without_usual = "out of memory";
      return;
    }
    criteria.usual_ms = median(one.at("ms").get<std::vector<double>>());
  }
}

// Predictions by bench/plain_predictions.py.
std::vector<double> predict_plainly(const std::string& python, const PlainRequest& request,
                                    Progress& progress) {
  std::vector<std::string> words = {request.screen.string(), request.checkpoint.string(),
                                    "--samples",
                                    fmt::format("{}", fmt::join(request.samples, ","))};
  for (const std::string& setting : request.model) {
    words.push_back("--set");
    words.push_back(setting);
  }
  progress.begin("predicting in plain PyTorch", request.samples.size(), "samples");
  PythonScript script("plain_predictions.py", python, words);
  std::vector<double> predicted;
  uint64_t done = 0;
  for (std::string line; script.read_line(line);) {
    throw_if_stopped();
    const Json json = parse_json(line, script.path().string() + " printed");
    if (json.contains("error")) throw Error("{}", json.at("error").get<std::string>());
    if (done >= request.samples.size() || json.at("sample") != request.samples[done])
      throw Error("{} answered for another sample: {}", script.path().string(), line);
    for (const double value : json.at("predicted")) predicted.push_back(value);
    progress.advance(++done);
  }
  progress.end();
  if (const int status = script.end(); status != 0 || done != request.samples.size())
    throw Error("{} failed with status {} after {} of {} samples", script.path().string(), status,
                done, request.samples.size());
  return predicted;
}

}  // namespace

void run(const BenchCriteriaCall& call) {
  CriteriaSettings criteria;
  criteria.samples = call.samples;
  criteria.batch = call.batch;
  criteria.steps = call.steps;
  criteria.settings = call.settings;
  refuse_owned(criteria.settings, {{"screen", "SCREEN"},
                                   {"split", "the slice"},
                                   {"rung", "the question"},
                                   {"store", "the question"},
                                   {"train.batch", "--batch"}});
  stop_on_signals();
  const Screen screen = Screen::open(call.screen);
  const Workshop workshop(call.out, "criteria");
  criteria.folder = workshop.path();
  const Screen slice = write_criteria_slice(screen, criteria);
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  fmt::print(stderr, "timing the usual form in Python\n");
  measure_usual(call, workshop.path(), criteria);
  TerminalProgress progress;
  criteria.plain = [&](const PlainRequest& request, Progress& shown) {
    return predict_plainly(call.python, request, shown);
  };
  const auto answers = check_criteria(screen, slice, criteria, note, progress);
  Json all = Json::array();
  bool has_failed = false;
  for (const Criterion& one : answers) {
    fmt::print("{}  {:<12}  {}\n", one.number, name(one.verdict), one.question);
    fmt::print("   compared  {}\n   figure    {}\n   asked     {}\n", one.compared, one.figure,
               one.bound);
    all.push_back(one.to_json());
    has_failed = has_failed || one.verdict == Verdict::fail;
  }
  if (!call.json.empty()) write_text_atomically(call.json, all.dump(2) + "\n");
  if (has_failed) set_exit_code(1);
}

}  // namespace lacuna::cli
