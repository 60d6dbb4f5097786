#include "lacuna/screen/noise.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

std::string with_label(const std::string& label, const char* ending) {
  std::string name = label + ending;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

const Column* column_of(const Samples& samples, const std::string& name) {
  const auto found = std::ranges::find(samples.columns, name, &Column::name);
  return found == samples.columns.end() ? nullptr : &*found;
}

// Whose variance is known for a sample, by what its column says.
class NoiseOfSamples {
 public:
  NoiseOfSamples(const Samples& samples, std::span<const LabelNoise> noise,
                 const std::string& label)
      : counts_(column_of(samples, repeat_count_column(label))),
        sds_(column_of(samples, repeat_sd_column(label))) {
    for (const LabelNoise& one : noise) {
      if (one.label != label) continue;
      if (one.column.empty()) for_all_ = one.variance;
      const Column* column = one.column.empty() ? nullptr : column_of(samples, one.column);
      if (column == nullptr || !column->is_category()) continue;
      const auto at = std::ranges::find(column->categories, one.category);
      if (at != column->categories.end())
        by_category_.push_back({column, uint32_t(at - column->categories.begin()), one.variance});
    }
  }

  // Of the sample's label, which may be a mean.
  std::optional<double> variance(uint64_t sample) const {
    std::optional<double> one = for_all_;
    for (const auto& [column, code, variance] : by_category_)
      if (column->code(sample) == code) one = variance;
    if (!one || counts_ == nullptr || sds_ == nullptr) return one;
    const double count = counts_->number(sample);
    const bool is_mean = count > 1 && sds_->number(sample) > 0;  // else copies of one measurement
    return is_mean ? *one / count : *one;
  }

 private:
  struct OfCategory {
    const Column* column;
    uint32_t code;
    double variance;
  };
  std::vector<OfCategory> by_category_;
  std::optional<double> for_all_;
  const Column *counts_, *sds_;  // null: no label is a mean
};

}  // namespace

std::string repeat_count_column(const std::string& label) { return with_label(label, "_repeats"); }

std::string repeat_sd_column(const std::string& label) { return with_label(label, "_repeat_sd"); }

std::optional<double> noise_ceiling(const Samples& samples, std::span<const LabelNoise> noise,
                                    uint64_t label, std::span<const uint64_t> chosen) {
  const NoiseOfSamples of(samples, noise, samples.label_names[label]);
  const auto labels = samples.labels.as<float>();
  double count = 0, mean = 0, squares = 0, noise_sum = 0;
  for (const uint64_t sample : chosen) {
    const double value = double(labels[sample * samples.label_count() + label]);
    if (std::isnan(value)) continue;
    const auto variance = of.variance(sample);
    if (!variance) return std::nullopt;
    noise_sum += *variance;
    count += 1;
    const double from_mean = value - mean;
    mean += from_mean / count;
    squares += from_mean * (value - mean);
  }
  if (count < 2 || !(squares > 0)) return std::nullopt;
  return std::sqrt(std::max(0.0, 1 - noise_sum / squares));
}

std::vector<LabelNoise> joined_noise(std::span<const LabelNoise> all) {
  std::vector<LabelNoise> joined;
  for (const LabelNoise& one : all) {
    const auto same = std::ranges::find_if(joined, [&](const LabelNoise& other) {
      return other.label == one.label && other.column == one.column &&
             other.category == one.category;
    });
    if (same == joined.end()) {
      joined.push_back(one);
      continue;
    }
    const double mine = double(one.repeats - one.sets), theirs = double(same->repeats - same->sets);
    same->variance = (mine * one.variance + theirs * same->variance) / (mine + theirs);
    same->sets += one.sets;
    same->repeats += one.repeats;
  }
  return joined;
}

Json to_json(std::span<const LabelNoise> noise) {
  Json list = Json::array();
  for (const LabelNoise& one : noise) {
    list.push_back({{"label", one.label},
                    {"variance", one.variance},
                    {"sets", one.sets},
                    {"repeats", one.repeats}});
    if (!one.column.empty())
      list.back().update({{"column", one.column}, {"category", one.category}});
  }
  return list;
}

std::vector<LabelNoise> noise_from_json(const Json& json) {
  std::vector<LabelNoise> noise;
  for (const Json& one : json)
    noise.push_back({one.at("label").get<std::string>(), one.value("column", ""),
                     one.value("category", ""), one.at("variance").get<double>(),
                     one.at("sets").get<uint64_t>(), one.at("repeats").get<uint64_t>()});
  return noise;
}

}  // namespace lacuna
