// `lacuna bench criteria`: six questions about every rung, answered on this machine.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench.h"
#include "cli/python_script.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/owned_settings.h"
#include "cli/workshop.h"
#include "lacuna/core/error.h"
#include "lacuna/core/median.h"
#include "lacuna/train/criteria.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Asks of this machine, with a slice of the screen and HeteroGin of width 64 with three layers:
  1  are masks that a GPU makes the CPU's, bit for bit?
  2  is training faster than the usual form (copies of the graph with edge masks in PyG), and on a GPU at
     least 10 steps a second at batch 28?
  3  do all rungs train to predictions within 1e-6 of each other?
  4  do the rungs kernel and device need less than 50 MB on the GPU beyond the model (device: and beyond
     the masks of one batch)?
  5  does a whole run end without error?
  6  do two runs with one seed give the same numbers?
What cannot be asked here is left out, with the reason. Exit code 1 when one of them fails. The usual form needs a
Python with torch, torch_geometric and numpy: --python, else LACUNA_PYTHON, else python3.

Examples:
  lacuna bench criteria demo
  lacuna bench criteria demo --batch 4 --python .venv/bin/python --json criteria.json)";

struct Arguments {
  fs::path screen, out = ".", json;
  std::string python;
  CriteriaSettings criteria;
};

// A step of the usual form on the same screen, batch and model, timed by bench/step.py.
void measure_usual(const Arguments& arguments, const fs::path& folder, CriteriaSettings& criteria) {
  const Config config = criteria_config(arguments.screen, criteria);
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
    PythonScript script("step.py", arguments.python,
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
  for (const Json& one : Json::parse(read_text(json))) {
    if (one.at("form") != "usual") continue;
    if (!one.at("fits").get<bool>()) {
      criteria.without_usual = "out of memory";
      return;
    }
    criteria.usual_ms = median(one.at("ms").get<std::vector<double>>());
  }
}

void run(Arguments arguments) {
  CriteriaSettings& criteria = arguments.criteria;
  refuse_owned(criteria.settings, {{"screen", "SCREEN"},
                                   {"split", "the slice"},
                                   {"rung", "the question"},
                                   {"store", "the question"},
                                   {"train.batch", "--batch"}});
  criteria.stop = &stop_on_signals();
  const Screen screen = Screen::open(arguments.screen);
  const Workshop workshop(arguments.out, "criteria");
  criteria.folder = workshop.path();
  const Screen slice = write_criteria_slice(screen, criteria);
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  fmt::print(stderr, "timing the usual form in Python\n");
  measure_usual(arguments, workshop.path(), criteria);
  TerminalProgress progress;
  const auto answers = check_criteria(slice, criteria, note, progress);
  Json all = Json::array();
  bool has_failed = false;
  for (const Criterion& one : answers) {
    fmt::print("{}  {:<8}  {}\n             {}\n", one.number, name(one.verdict), one.question,
               one.figure);
    all.push_back({{"number", one.number},
                   {"question", one.question},
                   {"verdict", name(one.verdict)},
                   {"figure", one.figure}});
    has_failed = has_failed || one.verdict == Verdict::fail;
  }
  if (!arguments.json.empty()) write_text_atomically(arguments.json, all.dump(2) + "\n");
  if (has_failed) set_exit_code(1);
}

}  // namespace

void add_bench_criteria(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("criteria", "Six questions about every rung");
  command->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  CriteriaSettings& criteria = arguments->criteria;
  const auto at_least_1 = CLI::Range(uint64_t(1), uint64_t(1) << 32);
  command->add_option("SCREEN", arguments->screen, "A screen")->required();
  command->add_option("--samples", criteria.samples, "The first so many")
      ->check(CLI::Range(uint64_t(20), uint64_t(1) << 32))
      ->capture_default_str();
  command->add_option("--batch", criteria.batch, "Samples a step")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--steps", criteria.steps, "Steps to measure on each rung")
      ->check(at_least_1)
      ->capture_default_str();
  command->add_option("--set", criteria.settings, "key=value over the model and the training")
      ->allow_extra_args(false);
  command->add_option("--out", arguments->out, "Folder for stores and runs; here when not given");
  command->add_option("--python", arguments->python, "For the usual form");
  command->add_option("--json", arguments->json, "File for all of it");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
