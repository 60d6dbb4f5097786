#include "cli/plan_ranks.h"

#include <fmt/format.h>

#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/run/profile_file.h"

namespace lacuna::cli {
namespace {

void check_data(const StepProfile& profile, const fs::path& file, const ProfiledData& data) {
  const auto found = profile.data.find(data.kind);
  if (found != profile.data.end() && data.is_same(Fingerprint::from_json(found->at("fingerprint"))))
    return;
  throw Error("{} was measured on another {}; profile a config of {}", file.string(), data.kind,
              data.path.string());
}

MeasuredStep step_from(const fs::path& path, const ProfiledData& data) {
  const fs::path file = fs::is_directory(path) ? path / "profile.json" : path;
  if (!fs::exists(file))
    throw Error("there is no profile {}; `lacuna profile CONFIG --out DIRECTORY` makes one",
                file.string());
  const StepProfile profile = read_profile(file);
  if (!profile.ranks.empty())
    throw Error("{} was measured with {} ranks; profile one process, with the share of one rank",
                file.string(), profile.ranks.size());
  if (profile.threads == 0)
    throw Error("{} does not say with how many threads it was measured; make it anew",
                file.string());
  check_data(profile, file, data);
  MeasuredStep step = {.from = file.string(),
                       .batch = profile.batch,
                       .ms = profile.wall_ms,
                       .gradient_bytes = profile.gradient_bytes,
                       .buckets = profile.gradient_buckets,
                       .peak_bytes = profile.peak_bytes,
                       .threads = int(profile.threads),
                       .is_on_gpu = !profile.gpu.empty()};
  for (const ProfileCategory& part : step.is_on_gpu ? profile.gpu : profile.cpu)
    if (part.name == "backward") step.backward_ms = part.ms;
  return step;
}

}  // namespace

std::optional<RankPlan> rank_plan(const RankPlanArguments& arguments, const ProfiledData& data,
                                  const Machine& machine) {
  if (arguments.profiles.empty()) {
    if (!arguments.link.empty()) throw UsageError("--link is for --ranks with --profile");
    return {};
  }
  if (arguments.ranks < 2) throw UsageError("--profile is for several --ranks");
  std::vector<MeasuredStep> measured;
  for (const fs::path& path : arguments.profiles) measured.push_back(step_from(path, data));
  const Link link = !arguments.link.empty() ? told_link(double(bytes_from_text(arguments.link)))
                    : measured[0].is_on_gpu && machine.gpu ? gpu_link(*machine.gpu)
                                                           : measure_link();
  return plan_ranks(arguments.ranks, arguments.batch, measured, machine, link);
}

void print_ranks(const RankPlanArguments& arguments, const std::optional<RankPlan>& plan) {
  const uint64_t ranks = arguments.ranks, batch = arguments.batch;
  if (plan) {
    fmt::print("\n");
    for (const std::string& words : words_of(*plan)) fmt::print("{}\n", words);
  } else if (ranks > 1) {
    fmt::print(
        "\nhow long a step of {} ranks takes: `lacuna profile CONFIG --set train.batch={} --out "
        "DIRECTORY`, then --profile DIRECTORY here\n",
        ranks, (batch + ranks - 1) / ranks);
  }
}

}  // namespace lacuna::cli
