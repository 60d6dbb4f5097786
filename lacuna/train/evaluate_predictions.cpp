#include "lacuna/train/evaluate_predictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/screen/import/table.h"
#include "lacuna/screen/screen_batch.h"
#include "lacuna/store/npy.h"
#include "lacuna/train/evaluate_run.h"
#include "lacuna/train/screen_task.h"

namespace lacuna {
namespace {

std::vector<std::string> chosen_labels(const Screen& screen, std::vector<std::string> labels) {
  return labels.empty() ? screen.samples().label_names : std::move(labels);
}

float number_in(const TableReader& table, size_t column) {
  const auto number = parse_number(trimmed(table.cells()[column]));
  if (!number)
    throw Error("{}: '{}' of column '{}' is not a number", table.where(), table.cells()[column],
                table.header()[column]);
  return float(*number);
}

uint64_t sample_in(const TableReader& table, size_t column, uint64_t samples) {
  const auto number = parse_number(trimmed(table.cells()[column]));
  if (!number || !(*number >= 0) || *number >= double(samples) || *number != std::floor(*number))
    throw Error("{}: '{}' is no sample; the screen has samples 0 to {}", table.where(),
                table.cells()[column], samples - 1);
  return uint64_t(*number);
}

std::vector<float> read_table(const fs::path& file, uint64_t samples,
                              const std::vector<std::string>& labels) {
  TableReader table({file});
  const size_t sample = table.column("sample");
  std::vector<size_t> columns;
  const auto has = [&](const std::string& name) {
    return std::ranges::count(table.header(), name) > 0;
  };
  for (const std::string& label : labels)
    columns.push_back(table.column(labels.size() == 1 && !has(label) ? "prediction" : label));
  std::vector<float> all(samples * labels.size(), NAN);
  std::vector<bool> is_given(samples);
  while (table.next()) {
    const uint64_t s = sample_in(table, sample, samples);
    if (is_given[s]) throw Error("{}: sample {} a second time", table.where(), s);
    is_given[s] = true;
    for (size_t l = 0; l < columns.size(); ++l)
      all[s * columns.size() + l] = number_in(table, columns[l]);
  }
  return all;
}

std::vector<float> read_array(const fs::path& file, uint64_t samples, uint64_t labels) {
  const Array array = read_npy(file);
  const Shape wide = {samples, labels};
  if (array.shape() != wide && !(labels == 1 && array.shape() == Shape{samples}))
    throw Error("{} has shape [{}], but the screen has {} samples and {} {} predicted: [{}, {}]",
                file.string(), fmt::join(array.shape(), ", "), samples, labels,
                labels == 1 ? "label is" : "labels are", samples, labels);
  if (array.dtype() == DType::f64) {
    const auto values = array.as<double>();
    return {values.begin(), values.end()};
  }
  if (array.dtype() != DType::f32)
    throw Error("{} has dtype {}; predictions are f32 or f64", file.string(), name(array.dtype()));
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

// The part's predictions; nothing where no sample of it has one.
std::optional<PartPredictions> part_of(const ScreenSession& session, const GivenPredictions& given,
                                       Part part) {
  const uint64_t labels = session.labels.size();
  PartPredictions found = {.part = part, .samples = {}, .predicted = {}, .measured = {}};
  std::optional<uint64_t> missing;
  for (const uint64_t sample : session.samples(part)) {
    const auto* first = given.predicted.data() + sample * labels;
    if (std::any_of(first, first + labels, [](float value) { return !std::isfinite(value); })) {
      if (!missing) missing = sample;
      continue;
    }
    found.samples.push_back(sample);
    found.predicted.insert(found.predicted.end(), first, first + labels);
  }
  if (found.samples.empty()) return {};
  if (missing)
    throw Error(
        "{} of {} {} samples have a prediction, but sample {} has none; predict the whole part, or "
        "none of it",
        found.samples.size(), session.samples(part).size(), name(part), *missing);
  found.measured = measured_labels(session.screen.samples(), session.labels.columns, found.samples);
  return found;
}

std::string yaml_list(const std::vector<std::string>& words) {
  Json list = words;
  return list.dump();
}

}  // namespace

std::vector<float> read_given_predictions(const fs::path& file, const Screen& screen,
                                          const std::vector<std::string>& labels) {
  const uint64_t samples = screen.samples().size();
  const auto names = chosen_labels(screen, labels);
  return file.extension() == ".npy" ? read_array(file, samples, names.size())
                                    : read_table(file, samples, names);
}

Evaluation evaluate_predictions(const GivenPredictions& given, const fs::path& out,
                                const Note& note, Progress& progress) {
  Run::check_free(out);
  const std::string about = fmt::format("screen: {}\nsplit: {}\nlabels: {}\n",
                                        Json(fs::absolute(given.screen).string()).dump(),
                                        Json(given.split).dump(), yaml_list(given.labels));
  ScreenSession session =
      open_session(parse_config(about + "model: {name: mlp}\n", {}), note, progress);
  EvaluationInput input = {.split = given.split,
                           .checkpoint = "given",
                           .labels = session.labels.names,
                           .bootstrap = given.bootstrap};
  const auto keep = [&](const std::string& words) { input.notes.push_back(words); };
  for (const Part part : {Part::test, Part::validation}) {
    auto found = part_of(session, given, part);
    if (!found) continue;
    found->ceilings = noise_ceilings(session.screen, session.labels.columns, found->samples);
    found->units = units_of(session, part, found->samples, keep);
    input.parts.push_back(std::move(*found));
  }
  if (input.parts.empty())
    throw Error("no test or validation sample of split '{}' has a prediction", given.split);
  add_groupings(input, session, seen_in(session.screen, session.split));
  if (given.baselines) add_all_baselines(input, session, session, "", progress);
  for (const std::string& words : input.notes) note(words);
  const Evaluation evaluation = evaluate(input, progress);

  const Run run = Run::create(out, about);
  Json info = ScreenTask(session).description();
  info.update({{"command", given.made_by}, {"started", utc_now()}});
  run.update(info);
  write_evaluation(out, input, evaluation);
  run.update({{"status", "finished"}, {"ended", utc_now()}});
  return evaluation;
}

}  // namespace lacuna
