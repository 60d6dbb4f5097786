#include "lacuna/run/ensemble/baseline_member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/run/evaluation/network/network_baseline.h"

namespace lacuna {

BaselineMember::BaselineMember(BaselineFit fit) : fit_(std::move(fit)) {
  const bool is_network = fit_.name == "network";
  const std::string wanted = is_network ? "ridge" : fit_.name;
  if (is_network) networks_ = gene_networks(fit_.screen.graph());
  for (const uint64_t label : fit_.labels) {
    std::vector<Baseline> fits =
        fit_baselines(fit_.screen.samples(), fit_.screen.graph().genes().size(), fit_.split, label,
                      {}, {}, fit_.weights ? &*fit_.weights : nullptr);
    const auto found = std::ranges::find(fits, wanted, &Baseline::name);
    if (found == fits.end() || (is_network && networks_.empty()))
      throw Error(
          "baseline '{}' cannot be fitted to {} once more, so it predicts no new samples; make an "
          "ensemble without it to predict with",
          fit_.name, fit_.screen.path().string());
    fitted_.push_back(std::move(*found));
  }
}

std::string BaselineMember::id() const {
  return fmt::format("{} {} {} {} {}", fit_.name, hex(fit_.screen.fingerprint().value()),
                     hex(hash64(fit_.split.parts.bytes())), fmt::join(fit_.labels, ","),
                     fit_.weights ? hex(hash64(fit_.weights->values.bytes())) : "unweighted");
}

std::vector<float> BaselineMember::predict_label(size_t l, const Samples& asked,
                                                 std::span<const uint64_t> all) const {
  if (fit_.name != "network") return fitted_[l].predict(asked, all);
  std::string problem;
  const auto found = network_baseline(
      {.networks = networks_,
       .samples = fit_.screen.samples(),
       .split = fit_.split,
       .label = fit_.labels[l],
       .weights = fit_.weights ? &*fit_.weights : nullptr,
       .ridge = fitted_[l],
       .others = asked,
       .chosen = {all}},
      [&](const std::string& words) { problem = words; }, Progress::none());
  if (!found) throw Error("{}", problem);
  return found->predicted[0];
}

std::vector<float> BaselineMember::predict(std::span<const int32_t> removed,
                                           std::span<const int32_t> ptr) const {
  Samples asked;
  asked.removed = Array::from(std::vector<uint32_t>(removed.begin(), removed.end()));
  asked.ptr = Array::from(std::vector<uint32_t>(ptr.begin(), ptr.end()));
  std::vector<uint64_t> all(ptr.size() - 1);
  std::iota(all.begin(), all.end(), 0);
  const size_t labels = fit_.labels.size();
  std::vector<float> predicted(all.size() * labels);
  for (size_t l = 0; l < labels; ++l) {
    const std::vector<float> of_label = predict_label(l, asked, all);
    for (size_t s = 0; s < all.size(); ++s) predicted[s * labels + l] = of_label[s];
  }
  return predicted;
}

}  // namespace lacuna
