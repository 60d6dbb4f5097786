#include "lacuna/screen/import/splits.h"

#include <simdjson.h>

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/screen/import/sample_table.h"

namespace lacuna {
namespace {

namespace ondemand = simdjson::ondemand;

class SplitImport {
 public:
  SplitImport(const SplitOptions& options, const SampleRows& rows, ImportContext& context)
      : path_(options.path.string()),
        rows_(rows),
        left_out_(context.report.tally(path_, "indices of rows that were left out")),
        parts_(rows.size(), uint8_t(Part::unused)) {}

  void read(ondemand::document& document) {
    ondemand::object lists;
    if (document.get_object().get(lists)) refuse_form();
    for (ondemand::field list : lists) {
      const std::string name(std::string_view(list.unescaped_key()));
      const auto part = part_from_cell(name);
      if (!part)
        throw Error("{}: '{}' is no part of a split; parts are train, val, test and unused", path_,
                    name);
      ondemand::array indices;
      if (list.value().get_array().get(indices)) refuse_form();
      for (auto element : indices) {
        uint64_t index = 0;
        if (element.get_uint64().get(index))
          throw Error("{}: part '{}' holds something that is not an index", path_, name);
        put(index, *part, name);
      }
    }
  }

  std::vector<uint8_t> take() { return std::move(parts_); }

 private:
  [[noreturn]] void refuse_form() const {
    throw Error("{}: not of the form {{\"train\": [0, 1, ...], \"val\": [...], \"test\": [...]}}",
                path_);
  }

  void put(uint64_t index, Part part, const std::string& name) {
    const auto [found, sample] = rows_.find(index);
    if (found == SampleRows::Found::nothing)
      throw Error(
          "{}: index {} of part '{}' is no {} of the source; was the split made for other data?",
          path_, index, name, rows_.source_name());
    if (found == SampleRows::Found::left_out)
      return left_out_.add_example(
          [&] { return fmt::format("{} {}", rows_.source_name(), index); });
    uint8_t& place = parts_[sample];
    if (place != uint8_t(Part::unused) && place != uint8_t(part))
      throw Error("{}: index {} is in part '{}', but its sample is in another part already", path_,
                  index, name);
    place = uint8_t(part);
  }

  std::string path_;
  const SampleRows& rows_;
  Tally& left_out_;
  std::vector<uint8_t> parts_;
};

}  // namespace

Split import_split(const SplitOptions& options, const SampleRows& rows, ImportContext& context) {
  SplitImport import(options, rows, context);
  const std::string path = options.path.string();
  const std::string text = read_text(options.path);
  try {
    simdjson::padded_string padded(text);
    ondemand::parser parser;
    ondemand::document document = parser.iterate(padded);
    import.read(document);
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
      throw Error("{}: text behind the lists", path);
  } catch (const simdjson::simdjson_error& error) {
    throw Error("{}: not JSON: {}", path, error.what());
  }
  std::vector<uint8_t> parts = import.take();
  context.report.tally(path, "samples in no part").count =
      uint64_t(std::count(parts.begin(), parts.end(), uint8_t(Part::unused)));
  context.add_source(options.path);
  Json how = {{"from", "index lists"}, {"path", path}, {"index", rows.source_name()}};
  return {options.name, Array::from(std::move(parts)), std::move(how)};
}

}  // namespace lacuna
