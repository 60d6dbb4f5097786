// lacuna import recording: options to a RecordingImport, and what became of each field.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/table_spec.h"
#include "cli/terminal.h"
#include "lacuna/core/error.h"
#include "lacuna/core/text/printable.h"
#include "lacuna/recording/import/import_recording.h"

namespace lacuna::cli {
namespace {

constexpr const char* kRecordingFooter = R"(
SOURCE is one word: [SESSION[/SEGMENT]=]PATH,key=value,... PATH is a file or a folder:
  .npy            one array; SESSION must be given
  .dat            a raw memory map, with NAME_meta.npz beside it: shape, dtype, perhaps offset
  .dset .pt       torch.save of a dictionary of tensors, or of {covariates, metadata}; needs a
                  Python with torch
  .h5 .hdf5 .nwb  datasets; other filters than deflate, shuffle and fletcher32 need one with h5py
  Zarr folder     v2 or v3: an array or a group
  any folder      of these, and of folders of these
An array NAME becomes field NAME of the session; SEGMENT/NAME and SESSION/SEGMENT/NAME say where it
belongs. A session's name is SESSION, else the file's or folder's; a segment's is "main" unless
something names it. Sources that name the same session are joined.
  subject=NAME  rate=NUMBER  units=FILE (a name a line)  group=PATH (inside HDF5, Zarr, torch)

Roles by name: stim stimulus movie frames; robs counts spikes spike_counts; behavior behaviour eyepos
eye_position pupil; dfs validity valid; trial_inds trial_ids trial trials; psth_inds stimulus_ids
stimulus_id stim_ids; t_bins time times timestamps time_stamps. All others: other.

--narrow: stimulus floats that are exactly 0..255 or (k-127)/255, and counts, become u8 (counts above
255 u16), validity becomes bits; each value is compared, and a field that does not fit stays.

Examples:
  lacuna import recording rec m1_0703=m1_0703/,rate=240 m2_0811=m2_0811/,rate=240 --narrow
  lacuna import recording rec all_sessions.h5 --rate 120 --role eye=behaviour --skip laser
  lacuna import recording rec new_session.dset --add
  lacuna import recording rec m1=stim.npy m1=robs.npy m1=trial_inds.npy --rate 120 --in-place)";

struct Arguments {
  std::string out;
  std::vector<std::string> sources, fields, roles;
  RecordingImport import;
  double rate = 0;
};

ImportedSource read_source(TableSpec spec) {
  ImportedSource source;
  source.path = spec.path();
  const std::string& name = spec.given_name();
  source.session = name.substr(0, name.find('/'));
  if (const size_t slash = name.find('/'); slash != name.npos)
    source.segment = name.substr(slash + 1);
  source.subject = spec.take("subject");
  source.group = spec.take("group");
  source.rate = spec.take_number("rate");
  if (const std::string units = spec.take("units"); !units.empty()) {
    std::string text = read_text(units), line;
    for (const char c : text + (text.ends_with('\n') ? "" : "\n")) {
      if (c == '\n') source.units.push_back(std::exchange(line, {}));
      if (c != '\n' && c != '\r') line += c;
    }
  }
  spec.finish();
  return source;
}

std::pair<std::string, std::string> read_pair(const char* option, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == text.npos || equals + 1 == text.size())
    throw UsageError("{} '{}': two names are needed, as in {}", option, text,
                     option == std::string_view("--role") ? "eye=behaviour" : "stim=movie");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void read_arguments(Arguments& arguments) {
  RecordingImport& import = arguments.import;
  for (const std::string& text : arguments.sources)
    import.sources.push_back(read_source({"SOURCE", text, TableSpec::Naming::named}));
  for (const std::string& text : arguments.fields) {
    const auto [to, from] = read_pair("--field", text);
    import.rename[from] = to;
  }
  for (const std::string& text : arguments.roles) {
    const auto [field, role] = read_pair("--role", text);
    import.roles[field] = field_role_from_name(role);
  }
  if (arguments.rate != 0) import.rate = arguments.rate;
  if (import.in_place && import.narrow)
    throw UsageError("--in-place leaves the bytes as they are, --narrow changes them: choose one");
}

void print_fields(const RecordingImportReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"field", "role", "rows", "from", "to", "bytes", ""}};
  uint64_t from = 0, to = 0;
  for (const ImportedField& field : report.fields) {
    rows.push_back({fmt::format("{}/{}/{}", field.session, field.segment, field.field),
                    std::string(name(field.role)), with_commas(field.rows), field.from, field.to,
                    format_bytes(field.to_bytes), field.note});
    from += field.from_bytes, to += field.to_bytes;
  }
  fmt::print("{}", format_table(rows, {2, 5}));
  for (const std::string& words : report.skipped) fmt::print("left out {}\n", printable(words));
  if (from != to) fmt::print("{} became {}\n", format_bytes(from), format_bytes(to));
}

void run(Arguments& arguments) {
  read_arguments(arguments);
  TerminalProgress progress;
  const ImportedRecording imported =
      import_recording(arguments.out, arguments.import, command_line(), progress);
  print_fields(imported.report);
  fmt::print("wrote {}: {} sessions, {}\n", arguments.out,
             with_commas(imported.recording.sessions().size()),
             format_bytes(imported.recording.bytes()));
}

}  // namespace

void add_import_recording(CLI::App& import) {
  CLI::App* recording = import.add_subcommand(
      "recording",
      "Make a recording from .npy, raw maps, torch files, HDF5 and Zarr, or add sessions to one.\n"
      "Rows are streamed: any size needs some tens of megabytes of memory.");
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  recording->add_option("OUT", a.out, "Directory to write")->required();
  recording->add_option("SOURCE", a.sources, "Files and folders; see below")->required();
  const auto add = [&](const char* option, auto& target, const char* what, const char* help) {
    return recording->add_option(option, target, help)->option_text(what)->allow_extra_args(false);
  };
  add("--rate", a.rate, "NUMBER", "Bins a second, of sources that say none")
      ->check(CLI::PositiveNumber);
  add("--field", a.fields, "NEW=OLD ...", "Store field OLD of the sources as NEW");
  add("--role", a.roles, "FIELD=ROLE ...",
      "stimulus, counts, behaviour, validity, trial, stimulus_id, time or other");
  add("--skip", a.import.skip, "FIELD ...", "Leave out a field, or SEGMENT/FIELD");
  recording->add_flag("--narrow", a.import.narrow, "Store fields as small as they exactly fit");
  recording->add_flag("--in-place", a.import.in_place,
                      "Write a manifest only; the bytes stay where they are and are checked");
  recording->add_flag("--add", a.import.add, "Add sessions to a recording that is there");
  add("--python", a.import.python, "PROGRAM",
      "For torch files and h5py (LACUNA_PYTHON, else python3)");
  recording->footer(kRecordingFooter);
  recording->callback([arguments] { run(*arguments); });
}

}  // namespace lacuna::cli
