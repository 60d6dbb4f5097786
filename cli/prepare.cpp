// lacuna prepare DATA --rung disk:u8 --out STORE: masks of a screen, or frames of a recording, made
// ahead of time. lacuna prepare CONFIG: all that a training of a recording needs ahead of time.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <memory>

#include "cli/call_python.h"
#include "cli/commands.h"
#include "cli/data_kind.h"
#include "cli/print_derived.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/ladder/what_fits.h"
#include "lacuna/masks/prepare_masks.h"
#include "lacuna/run/config.h"
#include "lacuna/run/prepared_recording.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string screen, rung, out, samples, view = "gene", python;
  std::vector<std::string> settings;  // of a config
  int threads = 0;
  bool again = false;
  FrameStoreSettings frames;          // of a recording
  std::vector<std::string> sessions;  // of a recording
};

// "A:B", either of which may be missing.
std::pair<uint64_t, uint64_t> parse_range(const std::string& text, uint64_t samples) {
  const auto number = [&](std::string_view word, uint64_t otherwise) {
    if (word.empty()) return otherwise;
    uint64_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size())
      throw UsageError("--samples {}: write A:B for samples A to B - 1", text);
    return value;
  };
  const size_t colon = text.find(':');
  if (colon == text.npos) throw UsageError("--samples {}: write A:B for samples A to B - 1", text);
  const std::string_view view = text;
  return {number(view.substr(0, colon), 0), number(view.substr(colon + 1), samples)};
}

void prepare_frames_of(const Recording& recording, const Options& options) {
  TerminalProgress progress;
  const auto start = std::chrono::steady_clock::now();
  FrameStoreSettings settings = options.frames;
  const Rung rung = recording_rung_from_name(options.rung);
  if (rung.place != Place::disk)
    throw UsageError("--rung {}: nothing is written for it; a store is for a disk rung",
                     options.rung);
  if (rung.form == Form::u8)
    throw UsageError("--rung disk:u8 reads the recording itself: nothing is to be prepared");
  settings.form = rung.form;
  PrepareFramesOptions prepare = {.sessions = options.sessions, .again = options.again};
  const Json source = {{"path", recording.path().string()},
                       {"fingerprint", hex(recording.fingerprint().value())}};
  prepare.made_by = {{"command", command_line()}, {"sources", Json::array({source})}};
  stop_on_signals();
  const PreparedFrames result = prepare_frames(recording, settings, options.out, prepare, progress);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (result.is_stopped) {
    fmt::print("stopped after {} sessions; the same command {}goes on\n", result.written,
               options.again ? "without --again " : "");
    set_exit_code(kResumeMe);
    return;
  }
  fmt::print("{}: {}, {} sessions, {}", options.out, name(Rung{Place::disk, settings.form}),
             result.sessions, format_bytes(result.bytes));
  if (result.written == 0)
    fmt::print("; all were there\n");
  else
    fmt::print("; {} written in {}, {} were there\n", result.written, format_duration(took.count()),
               result.sessions - result.written);
}

bool is_u8(const Recording& recording, const std::string& field) {
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments)
      if (const Field* found = segment.find(field); found && found->dtype != DType::u8)
        return false;
  return true;
}

// The fields that its transforms make once, and the store of its rung.
void prepare_config(Options options) {
  const Config config = read_config(options.screen, options.settings);
  if (config.kind() != DataKind::recording)
    throw UsageError(
        "{} is the config of a screen; name the screen, with --rung {} and --out STORE",
        options.screen, name(config.rung));
  const RecordingOptions& given = config.recording;
  Recording recording = Recording::open(given.path);
  const TransformStages stages = stages_of(recording, given).fields;
  bool is_any = false;
  if (!stages.once.empty()) {
    const fs::path place = derived_place(given, stages.once);
    DeriveOptions derive = derive_options(given, stages);
    derive.python = call_python(place, options.python);
    derive.check_room = [&](const DeriveNeed& need) {
      check_derive_room(need, place);
      fs::create_directories(fs::absolute(place).parent_path());
    };
    TerminalProgress progress;
    const Derived made = derive_recording(recording, place, derive, command_line(), progress);
    print_derived(recording, place, derive, made);
    recording = made.recording;
    is_any = true;
  }
  const Rung rung = given.rung;
  options.out = config.store.string();
  // Floats that transforms gave are read where they lie.
  if (needs_store(rung) && is_u8(recording, given.windows.stimulus.field)) {
    if (options.out.empty())
      throw Error("rung {} of {} needs a store; name a place for it: --set store=STORE", name(rung),
                  options.screen);
    options.rung = name(Rung{Place::disk, rung.form});
    options.frames.field = given.windows.stimulus.field;
    options.sessions = given.windows.sessions;
    prepare_frames_of(recording, options);
    is_any = true;
  }
  if (!is_any)
    fmt::print("{}: nothing is to be prepared for rung {}\n", options.screen, name(rung));
}

void run(const Options& options) {
  if (fs::is_regular_file(options.screen)) {
    if (!options.rung.empty() || !options.out.empty())
      throw UsageError("a config names its rung and its store; use --set rung=.. and store=..");
    return prepare_config(options);
  }
  if (!options.settings.empty()) throw UsageError("--set is for a config");
  if (options.rung.empty()) throw UsageError("--rung is required: which form to write");
  if (options.out.empty()) throw UsageError("--out is required: the store to write");
  if (is_recording_at(options.screen))
    return prepare_frames_of(Recording::open(options.screen), options);
  TerminalProgress progress;
  const auto start = std::chrono::steady_clock::now();
  const Screen screen = Screen::open(options.screen, progress);
  PrepareOptions prepare = {.threads = options.threads, .again = options.again};
  prepare.view = gene_reaction_view_from_name(options.view);
  if (!options.samples.empty())
    prepare.samples = parse_range(options.samples, screen.samples().size());
  const Json source = {{"path", options.screen},
                       {"fingerprint", hex(screen.fingerprint().value())}};
  prepare.made_by = {{"command", command_line()}, {"sources", Json::array({source})}};
  stop_on_signals();
  const MaskForm form = form_of_disk_rung(options.rung);
  const PrepareResult result = prepare_masks(screen, form, options.out, prepare, progress);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const uint64_t count = result.end - result.begin;
  if (result.is_stopped) {
    fmt::print("stopped after {} samples; the same command {}goes on\n", with_commas(count),
               options.again ? "without --again " : "");
    set_exit_code(kResumeMe);
    return;
  }
  fmt::print("{}: {}, samples {} to {}, {}", options.out, options.rung, with_commas(result.begin),
             with_commas(result.end - 1), format_bytes(result.bytes));
  if (result.written == 0)
    fmt::print("; all were there\n");
  else
    fmt::print("; {} written in {}, {} were there\n", with_commas(result.written),
               format_duration(took.count()), with_commas(count - result.written));
}

}  // namespace

void add_prepare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("prepare", "Make masks of samples, or frames of movies, ahead of time");
  command
      ->add_option("DATA", options->screen,
                   "A screen or a recording; or the config of a training on a recording:\n"
                   "what its transforms make once, and the store of its rung")
      ->required();
  command->add_option(
      "--rung", options->rung,
      "disk:u8         a byte an element\n"
      "disk:bits       a bit an element\n"
      "disk:bf16       two bytes an element\n"
      "disk:positions  what is gone, as a list\n"
      "of a recording: disk:bf16, disk:f32 (normalised frames), disk:chunks (compressed)");
  command->add_option("--out", options->out, "The store: a new directory, or one to go on with");
  command->add_option("--set", options->settings, "key=value over a config, such as store=chunks")
      ->allow_extra_args(false);
  command->add_option("--python", options->python,
                      "For functions of yours in a config [LACUNA_PYTHON, python3]");
  command->add_option("--samples", options->samples,
                      "A:B for samples A to B - 1 only; all when not given");
  command->add_option("--threads", options->threads, "That make masks; all cores when not given")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option(
          "--view", options->view,
          "When a gene-reaction edge goes: gene (with its gene; training reads this one),\n"
          "gene_and_reaction (with its gene, or its reaction)")
      ->capture_default_str();
  command->add_option("--field", options->frames.field, "Of a recording: whose frames")
      ->capture_default_str();
  command->add_option("--sessions", options->sessions, "Of a recording: only these, as a,b")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--compressor", options->frames.compressor, "Of chunks: lz4 or zstd")
      ->check(CLI::IsMember({"lz4", "lz4hc", "zstd", "zlib", "blosclz"}))
      ->capture_default_str();
  command
      ->add_option("--rows-per-chunk", options->frames.rows_per_chunk,
                   "Of chunks: frames, about a window")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 20))
      ->capture_default_str();
  command->add_flag("--again", options->again, "Throw away what the store holds and start afresh");
  command->footer(
      "Interrupted, it goes on where it was when called again; SIGTERM, SIGINT and SIGUSR1 end it\n"
      "after the next 64 MB, with exit code 75. Samples that were added to the screen are added "
      "to\n"
      "the store. See docs/prepare.md.\n"
      "A recording is prepared session by session: a session that was added prepares only itself.\n"
      "Examples:\n"
      "  lacuna prepare demo --rung disk:bits --out masks --samples 0:10000\n"
      "  lacuna verify masks --screen demo\n"
      "  lacuna prepare movies --rung disk:chunks --out chunks\n"
      "  lacuna prepare configs/recording.yaml --set rung=disk:chunks --set store=chunks");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
