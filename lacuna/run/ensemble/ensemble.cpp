#include "lacuna/run/ensemble/ensemble.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/seal.h"
#include "lacuna/core/system/clock.h"
#include "lacuna/core/text/text.h"
#include "lacuna/run/ensemble/ensemble_weights.h"
#include "lacuna/run/evaluation/evaluation_file.h"
#include "lacuna/run/json_file.h"
#include "lacuna/run/kept_split.h"
#include "lacuna/run/run.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/splits/held_out.h"

namespace lacuna {
namespace {

constexpr const char* kFormat = "lacuna.ensemble";

// What one member predicts: for each part [S, L].
struct Member {
  EnsembleMember about;
  std::vector<std::vector<float>> parts;
};

std::vector<std::string> label_names(const Evaluation& evaluation) {
  std::vector<std::string> names;
  if (const PartEvaluation* part = evaluation.main_part())
    for (const auto& label : part->labels) names.push_back(label.label);
  return names;
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

class EnsembleMaker {
 public:
  explicit EnsembleMaker(const EnsembleRequest& request) : request_(request) {
    if (request.runs.empty()) throw UsageError("an ensemble needs at least one run");
    Run::check_free(request.out);
    for (const fs::path& run : request.runs) check_run(run);
    for (const std::string& name : request.baselines)
      if (std::ranges::count(request.baselines, name) > 1)
        throw UsageError("baseline '{}' is named twice; each is a member once", name);
    first_ = read_evaluation(request.runs[0]);
    labels_ = label_names(first_);
    parts_ = read_predictions(request.runs[0], first_);
    // As a training evaluates them: validation before test.
    std::ranges::sort(parts_, {}, &PartPredictions::part);
    if (parts_.empty())
      throw Error("{}: its evaluation has no predictions; run `lacuna evaluate {}` again",
                  request.runs[0].string(), shell_word(request.runs[0].string()));
    for (PartPredictions& part : parts_) read_baselines(request.runs[0], first_, part);
    for (const fs::path& run : request.runs) add_run(run);
    for (const std::string& name : request.baselines) add_baseline(name);
    if (members_.size() < 2) throw UsageError("an ensemble needs at least two members");
    for (size_t m = 0; m < members_.size(); ++m)
      members_[m].about.name = fmt::format("member {}", m + 1);
  }

  Ensemble make(Progress& progress) {
    find_weights();
    EvaluationInput input = {.split = first_.split,
                             .checkpoint = "ensemble",
                             .labels = labels_,
                             .bootstrap = first_.bootstrap};
    const Run member = Run::open(request_.runs[0]);
    const Screen screen = Screen::open(read_run_info(request_.runs[0]).screen);
    const Split& split = screen.split(first_.split);
    for (const fs::path& run : request_.runs) check_kept_split(Run::open(run), screen, split);
    const std::vector<bool> is_seen =
        seen_genes(screen.samples(), screen.graph().genes().size(), split);
    for (size_t p = 0; p < parts_.size(); ++p) {
      input.parts.push_back(combined(p));
      PartPredictions& part = input.parts.back();
      part.units = held_out_units(screen, split, part.samples);
      part.groupings = group_samples(screen.samples(), screen.graph(), is_seen, part.samples);
      if (const PartEvaluation* first = first_.part(name(part.part)))  // of the same samples
        for (const LabelEvaluation& label : first->labels) part.ceilings.push_back(label.ceiling);
    }
    Ensemble ensemble = {.members = {}, .evaluation = evaluate(input, progress)};
    for (const Member& one : members_) ensemble.members.push_back(one.about);
    write(input, ensemble, member);
    return ensemble;
  }

 private:
  void check_run(const fs::path& path) const {
    std::vector<std::string> inside;
    for (const EnsembleMember& member : read_ensemble(path)) inside.push_back(member.words());
    if (!inside.empty())
      throw Error("{} is an ensemble itself; name what it is made of instead: {}", path.string(),
                  fmt::join(inside, ", "));
    const auto is_it = [&](const fs::path& other) { return fs::equivalent(path, other); };
    if (fs::exists(path) && std::ranges::count_if(request_.runs, is_it) > 1)
      throw UsageError("{} is named twice; each run is a member once", path.string());
  }

  void add_run(const fs::path& path) {
    const Evaluation evaluation = read_evaluation(path);
    const auto differs = [&](const std::string& what) {
      throw Error("{} and {} make no ensemble: {}", request_.runs[0].string(), path.string(), what);
    };
    if (evaluation.split != first_.split)
      differs(fmt::format("splits '{}' and '{}'", first_.split, evaluation.split));
    if (label_names(evaluation) != labels_)
      differs(fmt::format("labels {} and {}", fmt::join(labels_, ", "),
                          fmt::join(label_names(evaluation), ", ")));
    const std::vector<PartPredictions> there = read_predictions(path, evaluation);
    Member member = {{.run = fs::absolute(path)}, {}};
    for (const PartPredictions& part : parts_) {
      const auto same = std::find_if(there.begin(), there.end(),
                                     [&](const auto& other) { return other.part == part.part; });
      if (same == there.end())
        differs(fmt::format("the second has no predictions of the {} part", name(part.part)));
      if (same->samples != part.samples || !equal_bits(same->measured, part.measured))
        differs(fmt::format("other samples or labels in the {} part", name(part.part)));
      member.parts.push_back(same->predicted);
    }
    members_.push_back(std::move(member));
  }

  void add_baseline(const std::string& asked) {
    Member member = {{.run = fs::absolute(request_.runs[0]), .baseline = asked}, {}};
    for (const PartPredictions& part : parts_) {
      std::vector<std::string> names;
      for (const BaselinePredictions& baseline : part.baselines) {
        const bool everywhere = std::count(baseline.is_fitted.begin(), baseline.is_fitted.end(),
                                           true) == std::ptrdiff_t(labels_.size());
        if (everywhere) names.push_back(baseline.name);
        if (everywhere && baseline.name == asked) member.parts.push_back(baseline.predicted);
      }
      if (std::count(names.begin(), names.end(), asked) == 0)
        throw Error("{} has no baseline '{}' of all labels; it has {}", request_.runs[0].string(),
                    asked, fmt::join(names, ", "));
    }
    members_.push_back(std::move(member));
  }

  std::vector<std::vector<float>> columns(size_t part, size_t label) const {
    std::vector<std::vector<float>> columns;
    for (const Member& member : members_)
      columns.push_back(label_column(member.parts[part], labels_.size(), label));
    return columns;
  }

  void find_weights() {
    const auto validation = std::find_if(parts_.begin(), parts_.end(), [](const auto& part) {
      return part.part == Part::validation;
    });
    if (request_.weighted && validation == parts_.end())
      throw Error(
          "weights are chosen on the validation part, of which {} has no predictions; add it to "
          "evaluate.parts and evaluate again, or leave the weights alike",
          request_.runs[0].string());
    for (size_t l = 0; l < labels_.size(); ++l) {
      std::vector<double> weights(members_.size(), 1 / double(members_.size()));
      if (request_.weighted)
        weights = best_weights(columns(size_t(validation - parts_.begin()), l),
                               label_column(validation->measured, labels_.size(), l));
      for (size_t m = 0; m < members_.size(); ++m) members_[m].about.weights.push_back(weights[m]);
    }
  }

  PartPredictions combined(size_t p) const {
    PartPredictions part = parts_[p];
    const size_t labels = labels_.size();
    part.spread.resize(part.predicted.size());
    for (size_t l = 0; l < labels; ++l) {
      std::vector<double> weights;
      for (const Member& member : members_) weights.push_back(member.about.weights[l]);
      const MeanAndSpread both = combine(columns(p, l), weights);
      for (size_t s = 0; s < part.samples.size(); ++s) {
        part.predicted[s * labels + l] = both.mean[s];
        part.spread[s * labels + l] = both.spread[s];
      }
    }
    for (const Member& member : members_) {
      BaselinePredictions one = {
          .name = member.about.name, .predicted = member.parts[p], .is_member = true};
      for (size_t l = 0; l < labels; ++l)
        one.notes.push_back(
            fmt::format("{}, weight {:.3f}", member.about.words(), member.about.weights[l]));
      part.baselines.push_back(std::move(one));
    }
    return part;
  }

  void write(const EvaluationInput& input, const Ensemble& ensemble, const Run& member) const {
    const Run run = Run::create(request_.out, read_sealed_yaml(member.config()));
    run.update({{"status", "running"},
                {"command", request_.command},
                {"started", started_},
                {"screen", member.info().at("screen")}});
    Json list = Json::array();
    for (const EnsembleMember& one : ensemble.members) {
      Json weights = Json::object();
      for (size_t l = 0; l < labels_.size(); ++l) weights[labels_[l]] = one.weights[l];
      list.push_back({{"name", one.name}, {"run", one.run.string()}, {"weights", weights}});
      if (!one.baseline.empty()) list.back()["baseline"] = one.baseline;
    }
    write_sealed_json(
        request_.out / kEnsembleFile,
        {{"format", kFormat}, {"version", 1}, {"weighted", request_.weighted}, {"members", list}});
    write_evaluation(request_.out, input, ensemble.evaluation);
    run.update({{"status", "finished"}, {"ended", utc_now()}});
  }

  const EnsembleRequest& request_;
  const std::string started_ = utc_now();
  Evaluation first_;
  std::vector<std::string> labels_;
  std::vector<PartPredictions> parts_;  // of the first run, with its baselines
  std::vector<Member> members_;
};

}  // namespace

std::string EnsembleMember::words() const {
  return baseline.empty() ? run.string() : fmt::format("baseline {} of {}", baseline, run.string());
}

std::vector<fs::path> EnsembleFile::runs() const {
  std::vector<fs::path> runs;
  for (const EnsembleMember& member : members)
    if (member.baseline.empty()) runs.push_back(member.run);
  return runs;
}

std::string EnsembleFile::command(const fs::path& out) const {
  std::string words = "lacuna ensemble";
  for (const fs::path& run : runs()) words += " " + shell_word(run.string());
  for (const EnsembleMember& member : members)
    if (!member.baseline.empty()) words += " --baseline " + shell_word(member.baseline);
  if (weighted) words += " --weights validation";
  return words + " --out " + shell_word(out.string());
}

std::optional<EnsembleFile> read_ensemble_file(const fs::path& path) {
  if (!fs::exists(path / kEnsembleFile)) return {};
  return read_json_file(path / kEnsembleFile, kFormat, "make it anew with `lacuna ensemble`",
                        [](const SealedJson& sealed) {
                          EnsembleFile file = {.weighted = sealed.json.value("weighted", false)};
                          for (const Json& json : sealed.json.at("members")) {
                            EnsembleMember member = {.name = json.at("name").get<std::string>(),
                                                     .run = json.at("run").get<std::string>(),
                                                     .baseline = text_of(json, "baseline")};
                            for (const auto& [label, weight] : json.at("weights").items())
                              member.weights.push_back(weight.get<double>());
                            file.members.push_back(std::move(member));
                          }
                          return file;
                        });
}

std::vector<EnsembleMember> read_ensemble(const fs::path& path) {
  auto file = read_ensemble_file(path);
  return file ? std::move(file->members) : std::vector<EnsembleMember>();
}

Ensemble make_ensemble(const EnsembleRequest& request, Progress& progress) {
  return EnsembleMaker(request).make(progress);
}

}  // namespace lacuna
