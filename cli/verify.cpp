// lacuna verify STORE --screen SCREEN (or --recording RECORDING): looks for damage in a store.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <random>

#include "cli/commands.h"
#include "cli/data_kind.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/masks/verify_masks.h"
#include "lacuna/recording/transforms/derived_sources.h"

namespace lacuna::cli {
namespace {

struct Options {
  std::string store, screen, recording;
  VerifyOptions verify;
};

// Finished or not; false also for what cannot be read.
bool is_frame_store(const fs::path& path) {
  try {
    if (DirectoryWriter::unfinished_format(path) == FrameStore::kFormat) return true;
    return Directory::format_of(path) == FrameStore::kFormat;
  } catch (const Error&) {
    return false;
  }
}

// Which form and field, from the store's own manifest.
FrameStore open_frames(const std::string& path, const Recording& recording) {
  const Directory directory = Directory::open(path, FrameStore::kFormat, FrameStore::kVersion);
  std::string rung, field;
  read_manifest(path, [&] {
    rung = directory.manifest().at("rung").get<std::string>();
    field = directory.manifest().at("field").get<std::string>();
  });
  return FrameStore::open(path, recording, recording_rung_from_name(rung).form, field);
}

void verify_frames(const Options& options) {
  if (options.recording.empty())
    throw UsageError("{} holds frames: name the recording they were made from with --recording",
                     options.store);
  if (options.verify.sample) throw UsageError("--sample is for stores of screens");
  TerminalProgress progress;
  const Recording recording = Recording::open(options.recording);
  const FrameStore store = open_frames(options.store, recording);
  Directory::open(options.store, FrameStore::kFormat, FrameStore::kVersion).check(progress);
  store.verify(recording, options.verify.all, progress);
  fmt::print("{}: {} of field '{}', {} sessions, {}\n", options.store,
             name(Rung{Place::disk, store.settings().form}), store.settings().field,
             store.sessions().size(), format_bytes(store.bytes()));
  fmt::print("every byte is as written, and {} are those of {}: no fault\n",
             options.verify.all ? "all frames" : "the frames that were compared",
             options.recording);
}

// All bytes of a recording, those that stayed where they were included; of a derived one, its
// sources too.
void verify_recording(const Options& options) {
  TerminalProgress progress;
  const Recording recording = Recording::open(options.store);
  recording.check(progress);
  fmt::print("{}: {} sessions, {}: every byte is as written\n", options.store,
             recording.sessions().size(), format_bytes(recording.bytes()));
  if (!is_derived(recording)) return;
  const VerifiedSources sources = verify_sources(recording, options.verify.all, progress);
  if (sources.is_there && sources.rows == 0)
    fmt::print(
        "{} has not changed since; no rows were made again: of a lower rate (--step) and of "
        "what Python functions gave they are not\n",
        sources.source.string());
  else if (sources.is_there)
    fmt::print("{} has not changed since, and {} rows made again are the same\n",
               sources.source.string(), with_commas(sources.rows));
  else
    print_note(fmt::format("{}, which it was made from, is not there: not compared",
                           sources.source.string()));
}

void run(Options options) {
  if (is_recording_at(options.store)) return verify_recording(options);
  if (is_frame_store(options.store)) return verify_frames(options);
  if (options.screen.empty() && !fs::exists(fs::path(options.store) / kManifest))
    throw Error("{}: no finished store or recording is there; the command that makes it goes on",
                options.store);
  if (options.screen.empty())
    throw UsageError("{}: name the screen it was made from with --screen", options.store);
  TerminalProgress progress;
  const Screen screen = Screen::open(options.screen, progress);
  options.verify.seed = std::random_device()();
  const VerifyResult result = verify_masks(screen, options.store, options.verify, progress);
  const MaskStoreContents& contents = result.contents;
  fmt::print("{}: {}, samples {} to {}\n", options.store, disk_rung(contents.form),
             with_commas(contents.begin), with_commas(contents.end - 1));
  if (!result.is_manifest_checked)
    fmt::print("manifest: not checked (written before manifests had checksums)\n");
  for (const auto& fault : result.faults) fmt::print("  {}\n", fault);
  if (result.fault_count > result.faults.size())
    fmt::print("  and {} more\n", with_commas(result.fault_count - result.faults.size()));
  if (result.fault_count > 0) {
    std::fflush(stdout);
    throw Error("{}: {} found, the first: {}; restore it or run `{} --again`", options.store,
                result.fault_count == 1 ? "one fault" : with_commas(result.fault_count) + " faults",
                result.faults[0], prepare_command(screen, contents, options.store));
  }
  fmt::print("{} samples are those of {}, and {} pages of LMDB as written: no fault\n",
             with_commas(result.samples), options.screen, with_commas(result.pages));
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Compare a store with what it was made from");
  command->add_option("STORE", options->store, "What lacuna prepare made, or a recording itself")
      ->required();
  command->add_option("--screen", options->screen, "The screen it was made from");
  command->add_option("--recording", options->recording, "The recording it was made from");
  auto* const all = command->add_flag("--all", options->verify.all,
                                      "Every sample; else 3,000 at random and LMDB's own pages");
  command->add_option("--sample", options->verify.sample, "Only this sample")->excludes(all);
  command->footer(
      "Exits with 1 when something is wrong, and says what and where.\n"
      "Examples:\n"
      "  lacuna verify masks --screen demo\n"
      "  lacuna verify masks --screen demo --all\n"
      "  lacuna verify chunks --recording movies");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
