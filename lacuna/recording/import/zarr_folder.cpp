// Zarr arrays and groups of them.
#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/recording/import/sources.h"
#include "lacuna/store/zarr/zarr_array.h"

namespace lacuna {
namespace {

class ForeignZarr : public ForeignArray {
 public:
  ForeignZarr(std::string name, ZarrArray array)
      : ForeignArray(std::move(name), array.metadata().folder.string(), array.metadata().type,
                     array.metadata().shape),
        array_(std::move(array)) {}

  uint64_t rows_together() const override { return array_.rows_together(); }
  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) override {
    array_.read_rows(begin, end, out);
  }
  std::optional<FieldPlace> place(std::string& why) const override {
    why = "its rows lie in the chunks of a Zarr array";
    return {};
  }

 private:
  ZarrArray array_;
};

Json zarr_attributes(const fs::path& folder) {
  if (fs::exists(folder / ".zattrs")) return read_json(folder / ".zattrs");
  if (!fs::exists(folder / "zarr.json")) return Json::object();
  const Json json = read_json(folder / "zarr.json");
  return json.contains("attributes") ? json.at("attributes") : Json::object();
}

void add_attributes(const fs::path& folder, Json& metadata) {
  const Json attributes = zarr_attributes(folder);
  if (attributes.is_object()) metadata.update(attributes);
}

bool is_one_number(const fs::path& folder) {
  const bool is_old = fs::exists(folder / ".zarray");
  const Json json = read_json(folder / (is_old ? ".zarray" : "zarr.json"));
  return json.contains("shape") && json.at("shape") == Json::array();
}

void visit_zarr(const fs::path& folder, const std::string& name, ForeignSource& source) {
  if (is_zarr_array(folder)) {
    if (is_one_number(folder)) {
      source.skipped.push_back(name + ": one number, without a time axis");
      return;
    }
    try {
      source.arrays.push_back(std::make_unique<ForeignZarr>(name, ZarrArray(folder)));
    } catch (const Error& error) {
      source.unreadable.push_back({name, error.what()});
    }
    return;
  }
  if (!name.empty())
    add_attributes(folder, source.groups.try_emplace(name, Json::object()).first->second);
  std::vector<fs::path> members;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) members.push_back(entry.path());
  std::ranges::sort(members);
  for (const fs::path& member : members)
    if (is_zarr_array(member) || is_zarr_group(member)) {
      const std::string part = member.filename().string();
      visit_zarr(member, name.empty() ? part : name + "/" + part, source);
    }
}

}  // namespace

ForeignSource open_zarr(const fs::path& path, const ForeignOptions& options) {
  const fs::path folder = path / options.group;
  if (!is_zarr_array(folder) && !is_zarr_group(folder))
    throw Error("{}: no Zarr array or group '{}'", path.string(), options.group);
  ForeignSource source;
  fs::path inner = path;  // a group says more than the one it lies in
  add_attributes(inner, source.metadata);
  for (const fs::path& part : fs::path(options.group))
    add_attributes(inner /= part, source.metadata);
  const std::string stem = (path.has_filename() ? path : path.parent_path()).stem().string();
  visit_zarr(folder, is_zarr_array(folder) ? stem : "", source);
  return source;
}

}  // namespace lacuna
