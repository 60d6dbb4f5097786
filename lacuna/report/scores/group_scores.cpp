#include "lacuna/report/scores/group_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "lacuna/core/error.h"
#include "lacuna/screen/splits/sample_groups.h"

namespace lacuna::report {
namespace {

// The group of each sample of a part: its place in the order, and its name; nothing: in none.
struct GroupName {
  uint64_t place;
  std::string name;
  auto operator<=>(const GroupName&) const = default;
};
using GroupOf = std::function<std::optional<GroupName>(uint64_t sample)>;

struct Sides {
  std::vector<float> predicted, measured;
};

Grouping score_groups(const std::string& title, const PartPredictions& predictions, uint64_t label,
                      const GroupOf& group_of) {
  const uint64_t labels = predictions.label_count();
  std::map<GroupName, Sides> sides;
  for (uint64_t row = 0; row < predictions.samples.size(); ++row) {
    const auto group = group_of(predictions.samples[row]);
    if (!group) continue;
    Sides& of = sides[*group];
    of.predicted.push_back(predictions.predicted[row * labels + label]);
    of.measured.push_back(predictions.measured[row * labels + label]);
  }
  Grouping result = {.title = title, .groups = {}};
  for (const auto& [group, of] : sides) {
    const Metrics metrics = compute_metrics(of.predicted, of.measured);
    if (metrics.count > 0) result.groups.push_back({group.name, metrics});
  }
  return result;
}

Grouping by_category(const Column& column, const PartPredictions& predictions, uint64_t label) {
  Grouping result = score_groups(fmt::format("by category of '{}'", column.name), predictions,
                                 label, [&](uint64_t sample) -> std::optional<GroupName> {
                                   const auto code = column.code(sample);
                                   if (!code) return GroupName{column.categories.size(), "unknown"};
                                   return GroupName{*code, column.categories.at(*code)};
                                 });
  std::stable_sort(
      result.groups.begin(), result.groups.end(),
      [](const GroupScore& a, const GroupScore& b) { return a.metrics.count > b.metrics.count; });
  return result;
}

std::vector<bool> genes_of_training(GeneSets& sets, const Screen& screen, const Split& split) {
  std::vector<bool> is_seen(screen.graph().genes().size());
  const auto parts = split.parts.as<uint8_t>();
  for (uint64_t sample = 0; sample < parts.size() && sample < sets.size(); ++sample)
    if (Part(parts[sample]) == Part::train)
      for (const uint32_t gene : sets.read(sample)) is_seen[gene] = true;
  return is_seen;
}

}  // namespace

std::vector<Grouping> group_scores(const Screen& screen, const PartPredictions& predictions,
                                   uint64_t label, const Split* split) {
  LACUNA_ASSERT(predictions.samples.empty() || label < predictions.label_count());
  GeneSets sets(screen);
  for (const uint64_t sample : predictions.samples)
    if (sample >= sets.size())
      throw Error("predictions hold sample {}, but {} has {} samples; run `lacuna evaluate` again",
                  sample, screen.path().string(), sets.size());
  std::vector<Grouping> all;
  all.push_back(
      score_groups("by number of removed genes", predictions, label, [&](uint64_t sample) {
        const uint64_t genes = sets.read(sample).size();
        return GroupName{genes, fmt::format("{} {}", genes, genes == 1 ? "gene" : "genes")};
      }));
  if (split) {
    const std::vector<bool> is_seen = genes_of_training(sets, screen, *split);
    all.push_back(score_groups(
        "by genes that training never removed", predictions, label,
        [&](uint64_t sample) -> std::optional<GroupName> {
          const auto& genes = sets.read(sample);
          if (genes.empty()) return std::nullopt;
          const uint64_t unseen = uint64_t(std::count_if(
              genes.begin(), genes.end(), [&](uint32_t gene) { return !is_seen[gene]; }));
          if (unseen == genes.size()) return GroupName{UINT64_MAX, "all unseen"};
          return GroupName{unseen, unseen == 0 ? "none unseen" : fmt::format("{} unseen", unseen)};
        }));
  }
  for (const Column& column : screen.samples().columns)
    if (column.is_category()) all.push_back(by_category(column, predictions, label));
  std::erase_if(all, [](const Grouping& grouping) { return grouping.groups.size() < 2; });
  for (Grouping& grouping : all) {
    const size_t shown = std::min(kMostGroups, grouping.groups.size());
    grouping.left_out = grouping.groups.size() - shown;
    grouping.groups.resize(shown);
  }
  return all;
}

}  // namespace lacuna::report
