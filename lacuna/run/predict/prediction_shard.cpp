#include "lacuna/run/predict/prediction_shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/text/json.h"
#include "lacuna/screen/import/table.h"

namespace lacuna {
namespace {

std::string number_of(const Shard& shard) {
  return fmt::format("{}/{}", shard.index + 1, shard.count);
}

PredictionShard from_json(const Json& json) {
  return {.shard = parse_shard(json.at("shard").get<std::string>()),
          .of = json.at("of").get<std::string>(),
          .rows = json.at("rows").get<uint64_t>(),
          .samples = json.at("samples").get<uint64_t>(),
          .top = json.value("top", uint64_t(0)),
          .lowest = json.value("lowest", false),
          .label = json.value("label", uint64_t(0))};
}

// Two neighbours in the order of the shards.
void check_neighbours(const ShardFile& a, const ShardFile& b) {
  if (a.about.of != b.about.of || a.about.shard.count != b.about.shard.count)
    throw Error(
        "{} and {} are shards of two predictions: the run, its checkpoint, the samples that were "
        "asked for, --top or the number of shards differ",
        a.path.string(), b.path.string());
  if (a.about.shard.index == b.about.shard.index)
    throw Error("{} and {} are both shard {}; name each shard once", a.path.string(),
                b.path.string(), number_of(a.about.shard));
}

}  // namespace

std::string shard_note(const PredictionShard& shard) {
  Json json = {{"shard", number_of(shard.shard)},
               {"of", shard.of},
               {"rows", shard.rows},
               {"samples", shard.samples}};
  if (shard.top > 0) {
    json["top"] = shard.top;
    json["lowest"] = shard.lowest;
    json["label"] = shard.label;
  }
  return std::string(kShardMark) + json.dump();
}

PredictionShard read_shard_note(std::string_view note, const fs::path& file) {
  if (note.empty())
    throw Error(
        "{} does not say which shard it is: `lacuna predict --shard` writes that into the first "
        "line; predict it again with --shard",
        file.string());
  note.remove_prefix(std::min(note.size(), kShardMark.size()));
  try {
    return from_json(parse_json(note, file.string()));
  } catch (const std::exception&) {
    throw Error("{} is damaged: its first line does not say which shard it is; predict it again",
                file.string());
  }
}

std::vector<ShardFile> in_order(std::vector<ShardFile> files) {
  std::ranges::stable_sort(files, {}, [](const ShardFile& file) { return file.about.shard.index; });
  for (size_t i = 1; i < files.size(); ++i) check_neighbours(files[i - 1], files[i]);
  const uint64_t count = files.at(0).about.shard.count;
  for (uint64_t i = 0; i < count; ++i)
    if (i >= files.size() || files[i].about.shard.index != i)
      throw Error("shard {} is missing: {} of {} files are named, and they must be all",
                  number_of({i, count}), files.size(), count);
  return files;
}

}  // namespace lacuna
