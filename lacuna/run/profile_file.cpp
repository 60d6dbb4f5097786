#include "lacuna/run/profile_file.h"

#include <algorithm>

#include "lacuna/run/config.h"
#include "lacuna/run/json_file.h"

namespace lacuna {
namespace {

constexpr const char* kProfileFormat = "lacuna.profile";

Json to_json(const std::vector<ProfileCategory>& categories) {
  Json list = Json::array();
  for (const ProfileCategory& category : categories)
    list.push_back({{"category", category.name}, {"ms", category.ms}, {"share", category.share}});
  return list;
}

std::vector<ProfileCategory> categories_from(const Json& json, const char* key) {
  std::vector<ProfileCategory> categories;
  if (!json.contains(key) || json.at(key).is_null()) return categories;
  for (const Json& entry : json.at(key))
    categories.push_back({entry.at("category").get<std::string>(), number_of(entry, "ms"),
                          number_of(entry, "share")});
  return categories;
}

StepProfile profile_from(const Json& json) {
  StepProfile profile = {.device = text_of(json, "device"),
                         .machine = text_of(json, "machine"),
                         .date = text_of(json, "date"),
                         .config = text_of(json, "config"),
                         .data = Json::object(),
                         .steps = count_of(json, "steps"),
                         .batch = count_of(json, "batch"),
                         .threads = count_of(json, "threads"),
                         .peak_bytes = count_of(json, "peak_bytes"),
                         .gradient_bytes = count_of(json, "gradient_bytes"),
                         .gradient_buckets = count_of(json, "gradient_buckets"),
                         .wall_ms = number_of(json, "wall_ms_per_step"),
                         .recorded_ms = {},
                         .cpu = categories_from(json, "cpu"),
                         .gpu = categories_from(json, "gpu"),
                         .ways = {},
                         .ranks = {},
                         .largest = text_of(json, "largest"),
                         .trace = {}};
  if (json.contains("ways")) profile.ways = json.at("ways").get<std::vector<std::string>>();
  for (const char* kind : {"screen", "recording"})
    if (json.contains(kind)) profile.data[kind] = json.at(kind);
  if (json.contains("ranks"))
    for (const Json& rank : json.at("ranks"))
      profile.ranks.push_back({number_of(rank, "waited_ms"), number_of(rank, "alone_ms")});
  if (json.contains("recorded_ms_per_step") && !json.at("recorded_ms_per_step").is_null())
    profile.recorded_ms = number_of(json, "recorded_ms_per_step");
  return profile;
}

}  // namespace

double excess_ms(const StepProfile& profile, const std::vector<ProfileCategory>& side) {
  double sum = 0;
  for (const ProfileCategory& category : side) sum += category.ms;
  return side.empty() ? 0 : std::max(0.0, sum - profile.wall_ms);
}

Json to_json(const StepProfile& profile) {
  Json json = {{"format", kProfileFormat},
               {"version", 1},
               {"device", profile.device},
               {"machine", profile.machine},
               {"date", profile.date}};
  json.update(profile.data);
  json.update(
      {{"config", profile.config},
       {"steps", profile.steps},
       {"batch", profile.batch},
       {"threads", profile.threads},
       {"peak_bytes", profile.peak_bytes},
       {"gradient_bytes", profile.gradient_bytes},
       {"gradient_buckets", profile.gradient_buckets},
       {"wall_ms_per_step", profile.wall_ms},
       {"recorded_ms_per_step", profile.recorded_ms ? Json(*profile.recorded_ms) : Json(nullptr)},
       {"cpu", to_json(profile.cpu)},
       {"gpu", to_json(profile.gpu)},
       {"excess_ms_per_step",
        {{"cpu", excess_ms(profile, profile.cpu)}, {"gpu", excess_ms(profile, profile.gpu)}}},
       {"ways", profile.ways},
       {"largest", profile.largest}});
  for (const RankCommunication& rank : profile.ranks)
    json["ranks"].push_back({{"waited_ms", rank.waited_ms}, {"alone_ms", rank.alone_ms}});
  return json;
}

void write_profile(const fs::path& directory, const StepProfile& profile) {
  fs::create_directories(directory);
  write_sealed_json(directory / "profile.json", to_json(profile));
  write_text_atomically(directory / "trace.json", profile.trace.dump() + "\n");
}

StepProfile read_profile(const fs::path& file) {
  const std::string remedy = "run `lacuna profile` again, or remove it";
  StepProfile profile = read_json_file(file, kProfileFormat, remedy, [](const SealedJson& sealed) {
    return profile_from(sealed.json);
  });
  settings_of(profile.config, file.string() + ": its config");  // throws where it is none
  return profile;
}

}  // namespace lacuna
