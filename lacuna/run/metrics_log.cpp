#include "lacuna/run/metrics_log.h"

#include <algorithm>

#include "lacuna/core/hash.h"
#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

std::string hash_of_last_line(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  return text.empty() ? "" : hex(hash64(text.substr(text.rfind('\n') + 1)));
}

// Throws Error, or Json::exception, for a line that is damaged.
Json parse_line(std::string_view text) {
  if (seal_of_json_line(text) == Seal::broken) throw Error("{}", broken_seal_words());
  Json line = parse_json(text, "");
  line.at("kind").get<std::string>();
  line.at("step").get<uint64_t>();
  return line;
}

std::map<std::string, double> numbers_in(const Json& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.items()) numbers[name] = number_of(json, name.c_str());
  return numbers;
}

void add_line(const Json& json, MetricsLog& log) {
  const std::string kind = json.at("kind").get<std::string>();
  const auto epoch = json.at("epoch").get<uint64_t>(), step = json.at("step").get<uint64_t>();
  auto& [steps, epochs, state] = log;
  if (kind == "step") {
    while (!steps.empty() && steps.back().step >= step) steps.pop_back();
    while (!epochs.empty() && epochs.back().step > step) epochs.pop_back();
    steps.push_back({.epoch = epoch,
                     .step = step,
                     .loss = number_of(json, "loss"),
                     .lr = number_of(json, "lr"),
                     .grad_norm = number_of(json, "grad_norm"),
                     .samples_per_s = number_of(json, "samples_per_s"),
                     .seconds = number_of(json, "seconds")});
  } else if (kind == "epoch") {
    while (!epochs.empty() && epochs.back().epoch >= epoch) epochs.pop_back();
    EpochLine line = {.epoch = epoch,
                      .step = step,
                      .train_loss = number_of(json, "train_loss"),
                      .seconds = number_of(json, "seconds")};
    if (json.contains("validation"))
      for (const auto& [label, metrics] : json.at("validation").items())
        line.validation.push_back({label, metrics_from_json(metrics), numbers_in(metrics)});
    epochs.push_back(std::move(line));
  }
}

}  // namespace

Json to_json(const StepLine& line) {
  return {{"kind", "step"},
          {"epoch", line.epoch},
          {"step", line.step},
          {"loss", line.loss},
          {"lr", line.lr},
          {"grad_norm", line.grad_norm},
          {"samples_per_s", line.samples_per_s},
          {"seconds", line.seconds}};
}

Json to_json(const EpochLine& line) {
  Json validation = Json::object();
  for (const LabelMetrics& of : line.validation) validation[of.label] = to_json(of.metrics);
  return {{"kind", "epoch"},          {"epoch", line.epoch},
          {"step", line.step},        {"train_loss", line.train_loss},
          {"validation", validation}, {"seconds", line.seconds}};
}

LogState read_log(const fs::path& file, const std::string& end,
                  const std::function<void(std::string_view text, const Json& line)>& take) {
  LogState state;
  if (!fs::exists(file)) return state;
  const std::string text = read_text(file);
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t stop = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, stop - begin);
    begin = stop + 1;
    ++number;
    if (line.empty()) continue;
    state.is_checked = state.is_checked && seal_of_json_line(line) != Seal::none;
    try {
      take(line, parse_line(line));
    } catch (const std::exception&) {  // of JSON, or ours
      if (begin < text.size())
        throw Error("line {} of {} is damaged; restore the file, or delete that line to go on",
                    number, file.string());
      state.torn_line = number;
    }
  }
  if (!end.empty() && hash_of_last_line(text) != end)
    throw Error(
        "{} is damaged: its last line is not the one that run.json names; restore it, or delete it "
        "to go on without what was logged",
        file.string());
  return state;
}

std::string end_of_log(const fs::path& file) {
  return fs::exists(file) ? hash_of_last_line(read_text(file)) : "";
}

MetricsLog read_metrics(const fs::path& file, const std::string& end) {
  MetricsLog log;
  log.state = read_log(file, end, [&](std::string_view, const Json& line) { add_line(line, log); });
  return log;
}

}  // namespace lacuna
