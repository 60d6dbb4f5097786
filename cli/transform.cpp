// lacuna transform RECORDING OUT: new fields from old ones, fewer sessions, a lower rate or
// resolution, as a new recording that shares what does not change.
#include <fmt/format.h>

#include <memory>

#include "cli/call_python.h"
#include "cli/commands.h"
#include "cli/print_derived.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/ladder/what_fits.h"
#include "lacuna/recording/transforms/derive_recording.h"
#include "lacuna/recording/transforms/transform_settings.h"

namespace lacuna::cli {
namespace {

struct Options {
  fs::path recording, out, config;
  std::string resize, python, stimulus = "stim";
  DeriveOptions derive;
};

// "25x25": the stimulus in fewer pixels, as bytes.
void add_resize(Options& options) {
  const size_t cross = options.resize.find('x');
  uint64_t height = 0, width = 0;
  try {
    height = std::stoull(options.resize.substr(0, cross));
    width = std::stoull(options.resize.substr(cross + 1));
  } catch (const std::exception&) {
    throw UsageError("--resize {} is not HEIGHTxWIDTH, such as 25x25", options.resize);
  }
  if (options.derive.transforms.contains(options.stimulus))
    throw UsageError("--resize: the config has a field '{}' already; resize it there",
                     options.stimulus);
  options.derive.transforms[options.stimulus] = {
      {"from", options.stimulus},
      {"ops",
       {{{"resize", {{"height", height}, {"width", width}}}},
        {{"cast", {{"dtype", "u8"}, {"round", true}}}}}}};
}

void run(Options options) {
  if (!options.config.empty()) options.derive.transforms = read_transform_settings(options.config);
  if (!options.resize.empty()) add_resize(options);
  if (options.derive.transforms.empty() && options.derive.step == 1 &&
      options.derive.sessions.empty() && options.derive.without.empty())
    throw UsageError("nothing to do: give --config, --step, --resize, --sessions or --without");
  options.derive.python = call_python(options.out, options.python);
  options.derive.check_room = [&](const DeriveNeed& need) { check_derive_room(need, options.out); };
  TerminalProgress progress;
  const Recording source = Recording::open(options.recording);
  const Derived made =
      derive_recording(source, options.out, options.derive, command_line(), progress);
  print_derived(source, options.out, options.derive, made);
}

}  // namespace

void print_derived(const Recording& source, const fs::path& out, const DeriveOptions& options,
                   const Derived& made) {
  const Transforms transforms(source, options.transforms);
  for (const TransformedField& field : transforms.fields())
    for (const std::string& loss : transforms.losses(field.name)) print_note("lossy: " + loss);
  uint64_t own = 0;
  for (const Session& session : made.recording.sessions())
    for (const Segment& segment : session.segments)
      for (const Field& field : segment.fields) own += field.place.in_place ? 0 : field.bytes();
  fmt::print("{}: {} sessions written, {} there already; {} of its own, {} in {} and elsewhere\n",
             out.string(), made.written, made.kept, format_bytes(own),
             format_bytes(made.recording.bytes() - own), source.path().string());
}

void add_transform(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "transform", "Write new fields, a lower rate or resolution of a recording as a new one");
  command->add_option("RECORDING", options->recording, "A recording")->required();
  command
      ->add_option("OUT", options->out,
                   "Where to write. What does not change is not copied: RECORDING must stay.\n"
                   "What is there already by the same settings is kept, new sessions are added")
      ->required();
  command->add_option("--config", options->config,
                      "YAML: new fields, from which fields, by which steps (docs/recordings.md)");
  command->add_option("--sessions", options->derive.sessions, "Only these")->delimiter(',');
  command->add_option("--without", options->derive.without, "Fields to leave out")->delimiter(',');
  command
      ->add_option("--step", options->derive.step,
                   "Rows that become one: frames taken, counts summed, behaviour averaged")
      ->capture_default_str();
  command->add_option("--resize", options->resize,
                      "The stimulus in fewer pixels, as HEIGHTxWIDTH: means, rounded to bytes");
  command->add_option("--stimulus", options->stimulus, "The field of --resize")
      ->capture_default_str();
  command->add_option("--python", options->python,
                      "For functions of yours [LACUNA_PYTHON, python3]");
  command->footer(
      "Examples:\n"
      "  lacuna transform rec slow --step 2\n"
      "  lacuna transform rec small --resize 25x25 --sessions m1_000,m2_001\n"
      "  lacuna transform rec rec-gaze --config gaze.yaml");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
