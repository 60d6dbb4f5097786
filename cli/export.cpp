// `lacuna export`: what a run's model has learnt, as arrays.
#include <memory>

#include "cli/commands.h"
#include "cli/torch_calls.h"

namespace lacuna::cli {
namespace {

constexpr const char* kMore =
    R"(--embeddings writes an .npz file: genes [N, H] of the wild type with gene_names [N], and pooled
[S, H] with the numbers of the samples [S], for the samples of one part of the run's split. A model
that does not pool over genes has the genes alone.

Example:
  lacuna export run --embeddings --part test --out embeddings.npz)";

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write what the model of a run has learnt");
  command->footer(kMore);
  const auto call = std::make_shared<ExportCall>();
  ExportRequest& request = call->request;
  command->add_option("RUN", call->run, "Directory of the run")->required();
  command->add_flag("--embeddings", call->embeddings, "The vectors of genes and samples")
      ->required();
  command->add_option("--part", request.part, "train, validation, test or all")
      ->check(CLI::IsMember({"train", "validation", "test", "all"}))
      ->capture_default_str();
  command->add_option("--out", request.out, "File to write, .npz")->required();
  add_model_options(*command, request);
  command->callback([call] { run(*call); });
}

}  // namespace lacuna::cli
