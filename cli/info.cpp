// lacuna info PATH: what a directory is and what it holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>

#include "cli/commands.h"
#include "cli/info.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/ladder/frame_store.h"
#include "lacuna/masks/mask_store.h"
#include "lacuna/masks/store_pages.h"
#include "lacuna/recording/recording.h"
#include "lacuna/screen/screen.h"
#include "lacuna/screen/summary.h"
#include "lacuna/store/directory_lock.h"
#include "lacuna/store/lmdb.h"

namespace lacuna::cli {
namespace {

using Table = std::vector<std::vector<std::string>>;

struct Options {
  std::string path, gene;
  bool json = false, check = false, exit_code = false;
};

std::string number(double value) { return fmt::format("{:.5g}", value); }

// ---- for people

// "other names: 5,918, such as VPS8 (YAL002W)"
std::string aliases_text(const Names& genes) {
  for (uint32_t gene = 0; gene < genes.size(); ++gene)
    if (!genes.aliases(gene).empty())
      return fmt::format("other names of genes: {}, such as {}\n", with_commas(genes.alias_count()),
                         genes.shown(gene));
  return "";
}

std::string nodes_text(const HeteroGraph& graph, const ScreenSummary& summary) {
  Table rows = {{"node type", "count", "features"}};
  for (const auto& type : graph.node_types()) {
    std::string features;
    for (const auto& feature : type.features)
      features += fmt::format("{}{} [{}]", features.empty() ? "" : ", ", feature.name,
                              feature.values.shape()[1]);
    rows.push_back({type.name, with_commas(type.size()), features});
  }
  return format_table(rows, {1}) +
         fmt::format("isolated genes: {}\n", with_commas(summary.isolated_genes)) +
         aliases_text(graph.genes().names);
}

std::string edges_text(const ScreenSummary& summary) {
  Table rows = {{"edge type", "count", "self loops", "in min", "median", "max", "out min", "median",
                 "max", "values"}};
  uint64_t total = 0;
  for (const auto& edges : summary.edges) {
    total += edges.count;
    rows.push_back({edges.key, with_commas(edges.count), with_commas(edges.self_loops),
                    with_commas(edges.in.min), number(edges.in.median), with_commas(edges.in.max),
                    with_commas(edges.out.min), number(edges.out.median),
                    with_commas(edges.out.max), fmt::format("{}", fmt::join(edges.values, ", "))});
  }
  if (rows.size() > 2) rows.push_back({"all", with_commas(total)});
  return format_table(rows, {1, 2, 3, 4, 5, 6, 7, 8});
}

std::string samples_text(const Screen& screen, const ScreenSummary& summary) {
  std::string text =
      fmt::format("samples: {}, which remove {} of the {} genes\n", with_commas(summary.samples),
                  with_commas(summary.genes_removed), with_commas(screen.graph().genes().size()));
  Table rows = {{"genes removed", "samples"}};
  for (const auto& [genes, samples] : summary.removed_counts)
    rows.push_back({std::to_string(genes), with_commas(samples)});
  if (rows.size() > 1) text += format_table(rows, {0, 1});
  return text;
}

std::vector<std::string> number_cells(const NumberSummary& numbers) {
  if (numbers.count == 0) return {"0", with_commas(numbers.missing), "", "", "", ""};
  return {with_commas(numbers.count), with_commas(numbers.missing), number(numbers.mean),
          number(numbers.sd),         number(numbers.min),          number(numbers.max)};
}

std::string noise_text(std::span<const LabelNoise> noise) {
  std::string text;
  for (const LabelNoise& one : noise)
    text += fmt::format("noise of '{}'{}: sd {} of one measurement, from {} samples with repeats\n",
                        one.label, one.category.empty() ? "" : " in " + one.category,
                        number(std::sqrt(one.variance)), with_commas(one.sets));
  return text;
}

std::string labels_text(const Screen& screen, const ScreenSummary& summary) {
  if (summary.labels.empty()) return "no labels\n";
  Table rows = {{"label", "measured", "missing", "mean", "sd", "min", "max"}};
  for (size_t l = 0; l < summary.labels.size(); ++l) {
    rows.push_back({screen.samples().label_names[l]});
    const auto cells = number_cells(summary.labels[l]);
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  }
  return format_table(rows, {1, 2, 3, 4, 5, 6}) + noise_text(screen.noise());
}

// The most frequent first; a few.
std::string categories_text(const ColumnSummary& column) {
  auto categories = column.categories;
  std::stable_sort(categories.begin(), categories.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kShown = 3;
  std::string text = fmt::format("{} categories: ", with_commas(categories.size()));
  for (size_t i = 0; i < std::min(kShown, categories.size()); ++i)
    text += fmt::format("{}{} ({})", i > 0 ? ", " : "", categories[i].first,
                        with_commas(categories[i].second));
  return text + (categories.size() > kShown ? ", ..." : "");
}

std::string columns_text(const ScreenSummary& summary) {
  Table rows = {{"column", "type", "missing", "what it holds"}};
  for (const auto& column : summary.columns) {
    const auto& numbers = column.numbers;
    if (!column.categories.empty())
      rows.push_back({column.name, std::string(name(column.dtype)), with_commas(column.unknown),
                      categories_text(column)});
    else
      rows.push_back({column.name, std::string(name(column.dtype)), with_commas(numbers.missing),
                      numbers.count == 0 ? "nothing"
                                         : fmt::format("{} to {}, mean {}, sd {}",
                                                       number(numbers.min), number(numbers.max),
                                                       number(numbers.mean), number(numbers.sd))});
  }
  return rows.size() > 1 ? format_table(rows, {2}) : "no columns\n";
}

// "gene, seed 1": the manifest has the rest.
std::string how_text(const Json& how) {
  if (!how.is_object()) return "";
  std::string text = how.value("by", "");
  if (how.contains("column")) text += " " + how["column"].dump();
  if (how.contains("hold_out")) text += ", test " + how["hold_out"].dump();
  if (how.contains("seed")) text += ", seed " + how["seed"].dump();
  return text;
}

std::string splits_text(const ScreenSummary& summary) {
  Table rows = {{"split", "train", "validation", "test", "unused", "how"}};
  for (const auto& split : summary.splits)
    rows.push_back({split.name, with_commas(split.train), with_commas(split.validation),
                    with_commas(split.test), with_commas(split.unused), how_text(split.how)});
  return rows.size() > 1 ? format_table(rows, {1, 2, 3, 4}) : "no splits\n";
}

// Hundreds of blocks of samples are one line.
std::string fingerprint_text(const Fingerprint& fingerprint) {
  Table rows = {{"fingerprint", hex(fingerprint.value())}};
  const Fingerprint blocks = fingerprint.only({"samples "});
  bool blocks_shown = false;
  for (const auto& part : fingerprint.parts()) {
    const bool is_block = part.name.starts_with("samples ");
    if (!is_block) rows.push_back({"  " + part.name, hex(part.hash)});
    if (is_block && !blocks_shown)
      rows.push_back(
          {fmt::format("  samples ({} blocks)", blocks.parts().size()), hex(blocks.value())});
    blocks_shown = blocks_shown || is_block;
  }
  return format_table(rows);
}

// A warning: names, counts and checksums are read from that text.
constexpr const char* kUnchecked =
    "manifest: not checked (written before manifests had checksums)\n";

std::string screen_text(const Screen& screen, const ScreenSummary& summary) {
  const Directory& directory = screen.directory();
  const Json& manifest = directory.manifest();
  std::string text =
      fmt::format("{}: {}, version {}, {} in {} files\n", screen.path().string(),
                  manifest.at("format").get<std::string>(), manifest.at("version").get<int>(),
                  format_bytes(directory.bytes()), directory.files().size());
  const Json made_by = manifest.value("made_by", Json());
  if (made_by.is_object() && made_by.contains("command"))
    text += fmt::format("made by: {}\n", made_by.at("command").get<std::string>());
  if (!directory.is_manifest_checked()) text += kUnchecked;
  text += "\n" + nodes_text(screen.graph(), summary);
  text += "\n" + edges_text(summary);
  text += "\n" + samples_text(screen, summary);
  text += "\n" + labels_text(screen, summary);
  text += "\n" + columns_text(summary);
  text += "\n" + splits_text(summary);
  text += "\n" + fingerprint_text(screen.fingerprint());
  return text;
}

// ---- stores

// How many samples an unfinished store holds for good; nothing where it is being written to.
std::optional<uint64_t> safe_samples(const fs::path& store) {
  std::optional<DirectoryLock> lock;
  try {
    lock.emplace(store, DirectoryLock::Use::reading);
  } catch (const Error&) {
    return std::nullopt;
  }
  const fs::path data = store / StorePages::kData;
  constexpr uint64_t kEmpty = 2 * 4096;  // the two pages that every LMDB begins with
  return fs::exists(data) && fs::file_size(data) > kEmpty ? LmdbEnvironment(store).entries() : 0;
}

void run_unfinished_store(const Options& options) {
  const Json purpose = *DirectoryWriter::unfinished_purpose(options.path);
  const auto safe = safe_samples(options.path);
  Json json = {{"format", MaskStoreContents::kFormat},
               {"finished", false},
               {"samples_there", safe ? Json(*safe) : Json(nullptr)}};
  if (!purpose.is_null()) json.update(purpose);
  if (options.json) return fmt::print("{}\n", json.dump(2));
  fmt::print("{}: {}, unfinished: {}\n", options.path, MaskStoreContents::kFormat,
             safe ? "`lacuna prepare` was interrupted; the same command goes on"
                  : "`lacuna prepare` is at work on it");
  if (purpose.is_null()) return;
  MaskStoreContents contents;
  read_manifest(options.path,
                [&] { contents = MaskStoreContents::from_json(purpose, options.path); });
  fmt::print("masks of rung {} of samples {} to {}{}\n\n{}", disk_rung(contents.form),
             with_commas(contents.begin), with_commas(contents.end - 1),
             safe ? fmt::format("; {} are there", with_commas(*safe)) : "",
             fingerprint_text(contents.fingerprint));
}

// "made of screen demo, fingerprint 0123456789abcdef", where the manifest says so.
std::string source_text(const Json& manifest) {
  const Json made_by = manifest.value("made_by", Json());
  if (!made_by.is_object() || !made_by.contains("sources")) return "";
  std::string text;
  for (const Json& source : made_by.at("sources"))
    text += fmt::format("made of screen {}, fingerprint {}\n", source.value("path", "?"),
                        source.value("fingerprint", "?"));
  return text;
}

void run_store(const Options& options) {
  const Directory store =
      Directory::open(options.path, MaskStoreContents::kFormat, MaskStoreContents::kVersion);
  if (options.check)
    throw Error("{}: a store is checked against its screen: `lacuna verify {} --screen SCREEN`",
                options.path, shell_word(options.path));
  const bool is_checked = check_store_manifest(store);
  if (options.json) {
    Json json = store.manifest();
    json["finished"] = true;
    json["manifest_checked"] = is_checked;
    return fmt::print("{}\n", json.dump(2));
  }
  MaskStoreContents contents;
  uint64_t bytes = 0;
  read_manifest(options.path, [&] {
    contents = MaskStoreContents::from_json(store.manifest(), options.path);
    bytes = store.bytes() + store.manifest().at("lmdb").at("bytes").get<uint64_t>();
  });
  const uint64_t samples = contents.end - contents.begin;
  fmt::print("{}: {}, version {}, finished, {}\n", options.path, MaskStoreContents::kFormat,
             store.manifest().at("version").get<int>(), format_bytes(bytes));
  fmt::print("masks of rung {} of samples {} to {}, {} a sample\n{}{}\n", disk_rung(contents.form),
             with_commas(contents.begin), with_commas(contents.end - 1),
             format_bytes(bytes / std::max<uint64_t>(samples, 1)), source_text(store.manifest()),
             is_checked ? "" : kUnchecked);
  Table rows = {{"mask", "elements"}};
  for (const auto& section : contents.sections)
    rows.push_back({section.name, with_commas(section.count)});
  fmt::print("{}\n{}", format_table(rows, {1}), fingerprint_text(contents.fingerprint));
}

// What the checksums say of a screen that was opened without them; empty where all is well.
std::string damage_of(const Screen& screen, Progress& progress) {
  try {
    screen.directory().check(progress);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void run(const Options& options) {
  std::error_code ignored;  // opening the directory, below, reports it
  if (fs::exists(fs::path(options.path) / "run.json", ignored)) {
    if (options.check)
      throw UsageError(
          "--check is for screens; {} is a run, whose checkpoints are checked whenever "
          "they are read",
          options.path);
    print_run_info(options.path, options.json);
    if (options.exit_code) set_exit_code(training_exit_code(options.path));
    return;
  }
  if (options.exit_code) throw UsageError("--exit-code is for runs; {} is none", options.path);
  if (!options.gene.empty() && Directory::format_of(options.path) != Screen::kFormat)
    throw UsageError("--gene is for screens; {} is none", options.path);
  if (DirectoryWriter::unfinished_format(options.path) == MaskStoreContents::kFormat)
    return run_unfinished_store(options);
  const std::string format = Directory::format_of(options.path);
  if (format == Recording::kFormat)
    return print_recording_info(options.path, options.json, options.check);
  if (format == FrameStore::kFormat)
    return print_frame_store_info(options.path, options.json, options.check);
  if (format == MaskStoreContents::kFormat) return run_store(options);
  TerminalProgress progress;
  const Screen screen =
      options.check ? Screen::open(options.path, progress) : Screen::open_unchecked(options.path);
  if (!options.gene.empty()) return print_gene_info(screen, options.gene, options.json);
  const ScreenSummary summary = summarise(screen, progress);
  const std::string damage = options.check ? "" : damage_of(screen, progress);
  if (options.json) {
    Json json = to_json(summary, screen);
    json["checked"] = options.check;
    if (!damage.empty()) json["damaged"] = damage;
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}", screen_text(screen, summary));
  if (!damage.empty()) fmt::print("\ndamaged: {}\n", damage);
  if (options.check)
    fmt::print("\nchecked: every byte, index, code and fingerprint is as the manifest says\n");
}

}  // namespace

void add_info(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("info", "What a directory is and what it holds");
  command->add_option("PATH", options->path, "A screen, a recording, a run, or a store")
      ->required();
  command->add_option("--gene", options->gene, "Of a screen: this gene, by any of its names")
      ->option_text("NAME");
  command->add_flag("--json", options->json, "One JSON object on stdout, for programs");
  command->add_flag("--check", options->check,
                    "Read every byte against its checksum and every index against its range");
  command->add_flag(
      "--exit-code", options->exit_code,
      "Of a run: exit as its training did: 0 finished, 75 stopped (resume it), 1 else");
  command->footer(
      "Examples:\n"
      "  lacuna info demo\n"
      "  lacuna info demo --check\n"
      "  lacuna info yeast --gene VPS8\n"
      "  lacuna info demo --json | jq .samples.count\n"
      "  lacuna info runs/demo");
  command->callback([options] { run(*options); });
}

}  // namespace lacuna::cli
