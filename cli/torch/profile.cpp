// `lacuna profile`: where the time of a training step goes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/torch/ranks.h"
#include "cli/torch_calls.h"
#include "lacuna/core/seal.h"
#include "lacuna/measure/profile.h"

namespace lacuna::cli {
namespace {

// What each rank waited for the others, and what hides the rest.
void print_ranks(const StepProfile& profile) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "waited", "sums alone", "hidden", "for others"}};
  for (size_t r = 0; r < profile.ranks.size(); ++r) {
    const auto& [waited, alone] = profile.ranks[r];
    rows.push_back({std::to_string(r), fmt::format("{:.3f}", waited), fmt::format("{:.3f}", alone),
                    fmt::format("{:.3f}", std::max(alone - waited, 0.0)),
                    fmt::format("{:.3f}", std::max(waited - alone, 0.0))});
  }
  fmt::print(
      "\ncommunication, ms a step: {} of gradients in {}\n{}waited: in the table above, of rank 0; "
      "sums alone: of the same bytes while no rank computes;\nhidden: behind the backward pass; "
      "for "
      "others: longer than the sums take, since another rank came later\nor its cores were busy\n",
      format_bytes(profile.gradient_bytes),
      profile.gradient_buckets == 1 ? "one bucket"
                                    : fmt::format("{} buckets", profile.gradient_buckets),
      format_table(rows, {0, 1, 2, 3, 4}));
}

void print_table(const StepProfile& profile) {
  const bool has_gpu = !profile.gpu.empty();
  std::vector<std::vector<std::string>> rows = {{"ms a step", "CPU", ""}};
  if (has_gpu) rows[0].insert(rows[0].end(), {"GPU", ""});
  const auto add_row = [&](const std::string& name, double cpu, double gpu) {
    const auto share = [&](double ms) {
      return fmt::format("{:.1f}%", 100 * ms / profile.wall_ms);
    };
    rows.push_back({name, fmt::format("{:.3f}", cpu), share(cpu)});
    if (has_gpu) rows.back().insert(rows.back().end(), {fmt::format("{:.3f}", gpu), share(gpu)});
  };
  double cpu = 0, gpu = 0;
  for (size_t i = 0; i < profile.cpu.size(); ++i) {
    add_row(profile.cpu[i].name, profile.cpu[i].ms, has_gpu ? profile.gpu[i].ms : 0);
    cpu += profile.cpu[i].ms;
    if (has_gpu) gpu += profile.gpu[i].ms;
  }
  add_row("sum", cpu, gpu);
  fmt::print("{}, batch {}, {} steps of {:.3f} ms\n{}", profile.device, profile.batch,
             profile.steps, profile.wall_ms, format_table(rows, {1, 2, 3, 4}));
  if (profile.recorded_ms)
    fmt::print("as `lacuna train` runs it, recorded and replayed: {:.3f} ms a step\n",
               *profile.recorded_ms);
  for (const auto& [name, side] : {std::pair("CPU", &profile.cpu), std::pair("GPU", &profile.gpu)})
    if (const double excess = excess_ms(profile, *side); excess > 0.01 * profile.wall_ms)
      fmt::print("the parts on the {} take {:.3f} ms longer than the step\n", name, excess);
  for (const std::string& way : profile.ways) fmt::print("{}\n", way);
  fmt::print("{}\n", profile.largest);
  if (!profile.ranks.empty()) print_ranks(profile);
}

}  // namespace

void run(const ProfileCall& call) {
  stop_on_signals();
  const Config config = read_config(call.config, call.settings);
  const auto note = [](const std::string& words) {
    if (ranks().is_first()) fmt::print(stderr, "{}\n", words);
  };
  const StepProfile profile = profile_step(config, call.steps, note, ranks());
  if (!ranks().is_first()) return;
  if (!call.out.empty()) write_profile(call.out, profile);
  if (call.json)
    fmt::print("{}", sealed_json(to_json(profile)));  // as in the file
  else
    print_table(profile);
}

}  // namespace lacuna::cli
