// `lacuna profile`: where the time of a training step goes.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"

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

}  // namespace

void add_profile(CLI::App& app) {
  CLI::App* profile = app.add_subcommand("profile", "Where the time of a training step goes");
  profile->footer(kMore);
  const auto call = std::make_shared<ProfileCall>();
  profile->add_option("CONFIG", call->config, "YAML file; see configs/")->required();
  profile->add_option("--steps", call->steps, "Steps to measure")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20))
      ->capture_default_str();
  profile->add_option("--set", call->settings, "key=value over the config, such as train.lr=3e-4")
      ->allow_extra_args(false);
  profile->add_option("--out", call->out, "Directory for profile.json and trace.json");
  profile->add_flag("--json", call->json, "Print profile.json instead of the table");
  add_plugin_option(*profile);
  profile->callback([call] { run(*call); });
}

}  // namespace lacuna::cli
