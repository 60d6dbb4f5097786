// `lacuna predict`: what a run's model says about samples.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/torch_calls.h"
#include "lacuna/core/error.h"
#include "lacuna/core/shard.h"
#include "lacuna/run/predict/merge_predictions.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(Which samples, one of:
  --samples FILE              a line a sample: gene names with commas, tabs or spaces between them;
                              '-' alone is the wild type, '#' begins a comment; or a .csv that
                              this command wrote, whose labels are passed over
  --all-pairs                 every pair of genes
  --all-pairs-with A[,B...]   every pair of gene A, or of B, ... and another gene
  --all-triples-with A[,B]    every triple that removes gene A, or both A and B
of which --genes FILE takes the other genes from a list, and --unmeasured leaves out those that the
screen has. --top 20 --lowest then gives the 20 most negative: the strongest candidates for a
negative interaction; without --lowest the 20 most positive.

FILE.csv has a line a sample: the genes, then a column a label. FILE.npz has the arrays genes
[S, k], gene_names (gene_names[genes] are the names), predictions [S, L] and labels. Predictions are
in the labels' own units. Samples pass through one batch at a time, however many there are.

The run of a recording predicts every window that it has: --out is a folder, which gets a file
SESSION.SEGMENT.rates.npy each, f32 [T, units], expected counts a row, aligned to the rows of the
recording, NaN where there is no window; rates.json names the units.

Several processes share the work without talking: each gets --shard i/n and a .csv of its own, and
--merge puts all of these together, named in any order, with the same --top.

Examples:
  lacuna predict run --samples wanted.csv --out predicted.csv
  lacuna predict run --all-pairs --out pairs.npz
  lacuna predict run --all-pairs-with YAL002W --unmeasured --top 20 --lowest --out next.csv
  lacuna predict run --all-pairs --genes kinases.txt --out kinases.csv
  lacuna predict run --all-triples-with YAL001C,YBR001C --top 100 --lowest --out strongest.csv
  lacuna predict run --all-pairs --shard 1/2 --out first.csv
  lacuna predict --merge first.csv second.csv --out pairs.csv
  lacuna predict run --out rates)";

void merge(const std::vector<fs::path>& parts, const PredictCall& call) {
  const PredictRequest& request = call.request;
  if (!call.run.empty() || request.chooses_samples() || call.shard != "1/1")
    throw UsageError("--merge takes the files of the shards, --out and what goes with --top only");
  const uint64_t written = merge_predictions({.parts = parts,
                                              .out = request.out,
                                              .top = request.top,
                                              .lowest = request.lowest,
                                              .by = request.by});
  fmt::print("{}: {} samples of {} files\n", request.out.string(), with_commas(written),
             parts.size());
}

void start(const std::vector<fs::path>& parts, const PredictCall& call) {
  if (!parts.empty()) return merge(parts, call);
  if (call.run.empty()) throw UsageError("no RUN; name the run whose model predicts");
  parse_shard(call.shard);
  run(call);
}

}  // namespace

void add_predict(CLI::App& app) {
  CLI::App* predict = app.add_subcommand(
      "predict", "Predict by the model of a run: samples of a screen, rates of a recording");
  predict->footer(kMore);
  const auto call = std::make_shared<PredictCall>();
  PredictRequest& request = call->request;
  predict->add_option("RUN", call->run, "Directory of the run");
  predict->add_option("--samples", request.samples, "File with a sample a line");
  predict->add_flag("--all-pairs", request.all_pairs, "Every pair of genes");
  predict->add_option("--all-pairs-with", request.all_pairs_with, "One gene or more")
      ->delimiter(',')
      ->allow_extra_args(false);
  predict->add_option("--all-triples-with", request.all_triples_with, "One gene, or two")
      ->delimiter(',')
      ->allow_extra_args(false);
  predict->add_option("--genes", request.genes,
                      "File of names: pairs and triples take others from it");
  predict->add_flag("--unmeasured", request.unmeasured,
                    "Only samples that the screen does not have");
  predict->add_option("--top", request.top, "Only the K samples with the largest predictions")
      ->check(CLI::Range(uint64_t(1), uint64_t(1) << 40));
  predict->add_flag("--lowest", request.lowest, "With --top: the smallest instead");
  predict->add_option("--by", request.by, "With --top: the label, where the run has several");
  predict
      ->add_option("--out", request.out,
                   "File to write, .csv or .npz; a folder for the rates of a recording")
      ->required();
  add_model_options(*predict, request);
  predict->add_option("--recording", call->recording, "Another place of the run's recording");
  predict->add_option("--batch", request.batch, "Samples at a time [twice that of training]");
  predict->add_option("--shard", call->shard, "i/n: only the i-th part of the samples");
  const auto parts = std::make_shared<std::vector<fs::path>>();
  predict->add_option("--merge", *parts, "Files of all shards, .csv, in any order");
  predict->callback([call, parts] { start(*parts, *call); });
}

}  // namespace lacuna::cli
