#include "lacuna/run/predict/merge_predictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/core/text/csv.h"
#include "lacuna/run/predict/prediction_file.h"
#include "lacuna/run/predict/prediction_shard.h"
#include "lacuna/screen/import/table.h"

namespace lacuna {
namespace {

struct Row {
  float value;  // that they are ranked by
  std::string line;
};

// A NaN is worse than any number; of equal ones the first stays first.
bool is_better(const Row& a, const Row& b, bool lowest) {
  if (std::isnan(a.value) || std::isnan(b.value)) return !std::isnan(a.value);
  return lowest ? a.value < b.value : a.value > b.value;
}

template <class Cells>
std::string line_of(const Cells& cells) {
  std::string line;
  for (const auto& cell : cells) line += csv_cell(cell) + ",";
  line.back() = '\n';
  return line;
}

// The column that the shards, with such a head, were ranked by.
size_t rank_column(const TableReader& table, const std::string& by) {
  const std::vector<std::string> labels = predicted_labels(table.header());
  if (by.empty() && labels.size() != 1)
    throw UsageError("{} has labels {}; say with --by which one --top is about",
                     table.path().string(), fmt::join(labels, ", "));
  return table.column(by.empty() ? labels[0] : by);
}

void check_head(const TableReader& table, const std::vector<std::string>& head,
                const fs::path& first) {
  if (table.header() != head)
    throw Error("{} has other columns than {}: they are not shards of one prediction",
                table.path().string(), first.string());
}

ShardFile open_shard(const fs::path& path) {
  const TableReader table({path});
  const std::vector<std::string>& head = table.header();
  if (head.empty() || head[0] != "gene_1" || predicted_labels(head).empty())
    throw Error("{} is no file that `lacuna predict` wrote", path.string());
  return {path, read_shard_note(table.note(), path)};
}

std::string top_words(uint64_t top, bool lowest) {
  if (top == 0) return "no --top";
  return fmt::format("--top {}{}", top, lowest ? " --lowest" : "");
}

// The best of all are among the best of each only where as many were asked for, in the same way.
void check_top(const MergeRequest& request, const ShardFile& shard) {
  const PredictionShard& about = shard.about;
  if (request.top != about.top || request.lowest != about.lowest)
    throw UsageError("{} was predicted with {}, but --merge has {}; say the same",
                     shard.path.string(), top_words(about.top, about.lowest),
                     top_words(request.top, request.lowest));
  if (request.top == 0) return;
  const TableReader table({shard.path});
  const std::vector<std::string> labels = predicted_labels(table.header());
  const size_t before = table.header().size() - labels.size();
  if (about.label < labels.size() && rank_column(table, request.by) != before + about.label)
    throw UsageError("{} has the best by label {}; say --by with it", shard.path.string(),
                     labels[about.label]);
}

}  // namespace

uint64_t merge_predictions(const MergeRequest& request) {
  std::vector<ShardFile> shards;
  for (const fs::path& part : request.parts) shards.push_back(open_shard(part));
  shards = in_order(std::move(shards));
  check_top(request, shards.at(0));
  const fs::path& first = shards[0].path;
  const std::vector<std::string> head = TableReader({first}).header();
  AtomicFile whole(request.out);
  FileWriter file(whole.temporary());
  file.write(line_of(head));
  std::vector<Row> rows;  // with `top`
  uint64_t written = 0;
  for (const auto& [part, about] : shards) {
    TableReader table({part});
    check_head(table, head, first);
    const uint64_t before = written;
    const size_t column = request.top > 0 ? rank_column(table, request.by) : 0;
    for (; table.next(); ++written) {
      throw_if_stopped();
      const std::string line = line_of(table.cells());
      if (request.top == 0)
        file.write(line);
      else
        rows.push_back({std::strtof(std::string(table.cells()[column]).c_str(), nullptr), line});
    }
    if (written - before != about.rows)
      throw Error("{} has {} samples, but was written with {}; predict it again", part.string(),
                  written - before, about.rows);
  }
  std::ranges::stable_sort(
      rows, [&](const Row& a, const Row& b) { return is_better(a, b, request.lowest); });
  if (request.top > 0) written = std::min<uint64_t>(request.top, rows.size());
  rows.resize(std::min<size_t>(rows.size(), written));
  for (const Row& row : rows) file.write(row.line);
  file.close();
  whole.commit();
  return written;
}

}  // namespace lacuna
