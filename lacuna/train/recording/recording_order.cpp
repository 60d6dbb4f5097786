#include "lacuna/train/recording/recording_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "lacuna/core/error.h"
#include "lacuna/recording/field_values.h"

namespace lacuna {
namespace {

const Field& weight_field(const Session& session, uint32_t segment, const std::string& name) {
  const Field* const field = session.segments[segment].find(name);
  if (!field || field->columns() != 1)
    throw Error("order.column: {}/{} has no field '{}' of one number a row; name another",
                session.name, session.segments[segment].name, name);
  return *field;
}

// The value of a field [T] at each window's t.
std::shared_ptr<const std::vector<float>> window_weights(const Windows& windows,
                                                         const std::string& field) {
  auto weights = std::make_shared<std::vector<float>>();
  weights->reserve(windows.size());
  std::vector<double> values;
  const WindowRun* last = nullptr;
  for (const WindowRun& run : windows.runs()) {
    if (!last || last->session != run.session || last->segment != run.segment)
      values = read_numbers(
          weight_field(windows.recording().sessions()[run.session], run.segment, field));
    last = &run;
    for (uint64_t t = run.begin; t < run.end; t += run.step)
      weights->push_back(float(values.at(t)));
  }
  return weights;
}

}  // namespace

std::vector<uint64_t> first_windows(const Windows& windows) {
  std::vector<uint64_t> first = {0};
  for (uint32_t s = 0; s < windows.recording().sessions().size(); ++s) {
    const auto [begin, end] = windows.of_session(s);
    first.push_back(first.back() + end - begin);
  }
  return first;
}

std::vector<double> session_shares(const RecordingOptions& options, const Windows& training) {
  const std::vector<uint64_t> first = first_windows(training);
  std::vector<std::string> names, subjects;
  std::vector<double> shares;
  for (size_t s = 0; s + 1 < first.size(); ++s) {
    const Session& session = training.recording().sessions()[s];
    names.push_back(session.name);
    subjects.push_back(session.subject);
    const uint64_t windows = first[s + 1] - first[s];
    shares.push_back(options.order == "balanced" ? double(windows > 0) : double(windows));
  }
  if (options.order != "weights") return shares;
  for (const auto& [name, weight] : options.weights)
    if (std::ranges::find(names, name) == names.end() &&
        std::ranges::find(subjects, name) == subjects.end())
      throw Error("order.weights names '{}', which is neither a session nor a subject; there is {}",
                  name, fmt::join(names, ", "));
  return weights_of_names(options.weights, names, subjects, first);
}

SessionOrder training_order(const RecordingSession& session) {
  const RecordingOptions& options = session.config.recording;
  const TrainOptions& train = session.config.train;
  const Windows& windows = session.training;
  SessionOrderSettings settings = {.global_batch = uint64_t(train.batch),
                                   .seed = train.seed,
                                   .one_session = !options.mixed,
                                   .steps = options.steps_an_epoch,
                                   .rank = session.group->rank(),
                                   .world = session.group->world()};
  if (options.order == "balanced") settings.mix = SessionMix::balanced;
  if (options.order == "weights") {
    settings.mix = SessionMix::weighted;
    settings.weights = session_shares(options, windows);
  }
  if (!options.weight_column.empty())
    settings.column = window_weights(windows, options.weight_column);
  return SessionOrder(first_windows(windows), settings);
}

}  // namespace lacuna
