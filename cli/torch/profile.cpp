// `lacuna profile`: where the time of a training step goes.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/train/profile.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Runs training steps of CONFIG and forgets them. Every moment belongs to one part, so the parts add up
to the wall time. aggregation, mlp, merge, heads and other are the forward pass. idle: on the CPU
time outside of all parts, such as waiting for the GPU; on the GPU time without work. With --out DIR
it writes profile.json (which `lacuna report` shows) and trace.json (for chrome://tracing or
ui.perfetto.dev).

Examples:
  lacuna profile configs/tiny.yaml
  lacuna profile configs/tiny.yaml --steps 100 --set train.batch=64 --out run)";

struct Arguments {
  fs::path config, out;
  std::vector<std::string> settings;
  uint64_t steps = 50;
  bool json = false;
};

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
  fmt::print("{}\n", profile.largest);
}

void run(const Arguments& arguments) {
  const Config config = read_config(arguments.config, arguments.settings);
  const auto note = [](const std::string& words) { fmt::print(stderr, "{}\n", words); };
  const StepProfile profile = profile_step(config, arguments.steps, note);
  if (!arguments.out.empty()) write_profile(arguments.out, profile);
  if (arguments.json)
    fmt::print("{}\n", to_json(profile).dump(2));
  else
    print_table(profile);
}

}  // namespace

void add_profile(CLI::App& app) {
  CLI::App* profile = app.add_subcommand("profile", "Where the time of a training step goes");
  profile->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  profile->add_option("CONFIG", arguments->config, "YAML file; see configs/")->required();
  profile->add_option("--steps", arguments->steps, "Steps to measure")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20))
      ->capture_default_str();
  profile
      ->add_option("--set", arguments->settings, "key=value over the config, such as train.lr=3e-4")
      ->allow_extra_args(false);
  profile->add_option("--out", arguments->out, "Directory for profile.json and trace.json");
  profile->add_flag("--json", arguments->json, "Print profile.json instead of the table");
  profile->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
