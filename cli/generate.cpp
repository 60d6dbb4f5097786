// `lacuna generate screen`: a synthetic screen whose labels have known parts.
// `lacuna generate recording`: a synthetic recording whose units have known receptive fields.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/recording/generate_recording.h"
#include "lacuna/screen/generate_screen.h"
#include "lacuna/screen/screen.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(label = mean + an effect a removed gene + an effect a query pair + graph + module + noise
The graph part counts the kept genes with two or more removed in-neighbours in one edge type, in
which all genes have the same degrees: who is linked to whom tells it, nothing else. The module
part, where it has a share, is an effect for every two modules of genes, whose genes the other edge
types link to each other: it can be told of a gene that training never saw. The parts are
saved beside the label: truth_gene, truth_pair, truth_graph, truth_module, truth_noise. With two
removed genes every sample is another pair, and no pair has an effect of its own. The same options
give the same bytes.

size     genes   gene-gene edges   metabolism   samples unless given
tiny        40               720          yes                    200
mini       120             1,800          yes                  3,000
small    1,000            56,000          yes                 20,000
yeast    6,607         2,495,908          yes                332,313
human   20,000        12,200,000           no                332,313

Example:
  lacuna generate screen demo --size yeast --samples 332313 --seed 1
Genes to hold out (lacuna split --by gene), of which the networks know more than their offsets:
  lacuna generate screen modules --size small --removed 2 --share-graph 0 --share-module 0.5)";

struct Arguments {
  fs::path out;
  std::string size = "yeast";
  std::optional<uint64_t> samples;
  std::optional<uint32_t> modules;
  std::optional<double> share_pair;
  GenerateOptions options;
};

// What would change nothing is refused: whoever asks for it means something.
void take_options(Arguments& arguments) {
  GenerateOptions& options = arguments.options;
  if (arguments.modules && !(options.share_module > 0))
    throw UsageError(
        "--modules {} without a share of the variance makes no modules; give --share-module, too",
        *arguments.modules);
  if (arguments.share_pair && *arguments.share_pair != 0 && options.removed == 2)
    throw UsageError(
        "--share-pair {} of samples that remove two genes, where no pair comes twice and none has "
        "an effect of its own; remove three or more genes, or leave it out",
        *arguments.share_pair);
  options.modules = arguments.modules.value_or(options.modules);
  options.share_pair = arguments.share_pair.value_or(options.share_pair);
}

void run(Arguments arguments) {
  take_options(arguments);
  const auto start = std::chrono::steady_clock::now();
  arguments.options.size = graph_size_from_name(arguments.size);
  arguments.options.samples = arguments.samples.value_or(default_samples(arguments.options.size));
  TerminalProgress progress;
  const GeneratedScreen made = generate_screen(arguments.options, progress);
  const Json made_by = {{"command", command_line()},
                        {"settings", to_json(arguments.options)},
                        {"sources", Json::array()}};
  const Screen screen = write_screen(
      arguments.out,
      {.graph = made.graph, .samples = made.samples, .splits = {}, .made_by = made_by}, progress);
  uint64_t edges = 0;
  for (const EdgeType& type : screen.graph().edge_types()) edges += type.size();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {} genes, {} edges of {} types, {} samples in {:.1f} s\n", screen.path().string(),
             with_commas(screen.graph().genes().size()), with_commas(edges),
             screen.graph().edge_types().size(), with_commas(screen.samples().size()),
             seconds.count());
}

constexpr const char* kMoreOfRecordings =
    R"(Frames are crops of pictures with 1/f amplitudes around a gaze that drifts and makes saccades.
Units have Gabor fields with two phases in time and fire as Poisson processes. There are trials,
repeated stimuli, pauses, lost frames, blinks (dropped eye tracking) and units that are lost for a
while. The truth is saved in OUT/truth: SESSION.spatial.npy [units, 51, 51], SESSION.temporal.npy
[units, 12] (newest first), SESSION.rates.npy. The same options give the same bytes. A minute of a
session takes 20 MB.

Example:
  lacuna generate recording rec --sessions 3 --minutes 5 --seed 1
  lacuna split rec --name trials --seed 1)";

struct RecordingArguments {
  fs::path out;
  GenerateRecordingOptions options;
};

void run_recording(const RecordingArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  TerminalProgress progress;
  const Recording recording =
      generate_recording(arguments.out, arguments.options, command_line(), progress);
  uint64_t frames = 0, units = 0;
  for (const Session& session : recording.sessions()) {
    frames += session.frames();
    units += session.units.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {} sessions, {} frames, {} units, {} in {:.1f} s\n", recording.path().string(),
             recording.sessions().size(), with_commas(frames), with_commas(units),
             format_bytes(recording.bytes()), seconds.count());
}

void add_recording(CLI::App& generate) {
  CLI::App* recording = generate.add_subcommand(
      "recording", "Write a synthetic recording: movies, spike counts, known receptive fields");
  recording->footer(kMoreOfRecordings);
  const auto arguments = std::make_shared<RecordingArguments>();
  GenerateRecordingOptions& options = arguments->options;
  recording->add_option("OUT", arguments->out, "Directory to write; must not exist yet")
      ->required();
  recording->add_option("--sessions", options.sessions, "Number of sessions")
      ->check(CLI::Range(uint64_t(1), uint64_t(10'000)))
      ->capture_default_str();
  recording->add_option("--minutes", options.minutes, "Length of a session")->capture_default_str();
  recording->add_option("--seed", options.seed, "Another seed, another recording")
      ->capture_default_str();
  recording->add_option("--side", options.side, "Pixels of a frame's side, 17 to 512")
      ->capture_default_str();
  recording->add_option("--rate", options.rate, "Frames a second")->capture_default_str();
  recording->add_option("--units", options.units, "Units of each session; 0 = 23 to 181")
      ->capture_default_str();
  recording
      ->add_option("--first-session", options.first_session,
                   "Number of the first session, in its name and its seed")
      ->capture_default_str();
  recording->add_flag("--add", options.add, "Add the sessions to the recording OUT");
  recording->callback([arguments] { run_recording(*arguments); });
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* generate = app.add_subcommand("generate", "Make synthetic data");
  generate->require_subcommand(1);
  add_recording(*generate);
  CLI::App* screen = generate->add_subcommand(
      "screen", "Write a synthetic screen: a graph with hubs, samples, labels with known parts");
  screen->footer(kMore);
  const auto arguments = std::make_shared<Arguments>();
  GenerateOptions& options = arguments->options;
  screen->add_option("OUT", arguments->out, "Directory to write; must not exist yet")->required();
  screen->add_option("--size", arguments->size, "tiny, mini, small, yeast or human")
      ->check(CLI::IsMember({"tiny", "mini", "small", "yeast", "human"}))
      ->capture_default_str();
  screen->add_option("--samples", arguments->samples, "Number of samples")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 32));
  screen->add_option("--seed", options.seed, "Another seed, another screen")->capture_default_str();
  screen->add_option("--removed", options.removed, "Genes a sample removes, 2 to 16")
      ->check(CLI::Range(2, 16))
      ->capture_default_str();
  screen
      ->add_option("--query-pairs", options.query_pairs,
                   "Query pairs; 0 = 420 (tiny 20, mini and small 100), more for many samples")
      ->check(CLI::Range(uint64_t(0), uint64_t(UINT32_MAX)))
      ->capture_default_str();
  screen
      ->add_option("--interaction-type", options.interaction_type,
                   "Gene-gene edge type of the graph part")
      ->capture_default_str();
  screen->add_option("--modules", arguments->modules, "Modules of genes, with --share-module")
      ->check(CLI::Range(2, 2500))
      ->default_str(fmt::format("{}", options.modules));
  const char* const share = "Share of the labels' variance; shares are divided by their sum";
  screen->add_option("--share-gene", options.share_gene, share)->capture_default_str();
  screen->add_option("--share-pair", arguments->share_pair, share)
      ->default_str(fmt::format("{}", options.share_pair));
  screen->add_option("--share-graph", options.share_graph, share)->capture_default_str();
  screen->add_option("--share-module", options.share_module, share)->capture_default_str();
  screen->add_option("--share-noise", options.share_noise, share)->capture_default_str();
  screen->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
