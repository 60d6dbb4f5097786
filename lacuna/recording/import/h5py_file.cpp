// HDF5 through h5py, which brings a newer libhdf5 and filters of its own (lzf; more where the
// package hdf5plugin is installed). Rows come through a pipe.
#include <algorithm>
#include <memory>

#include "lacuna/core/error.h"
#include "lacuna/recording/import/python_process.h"
#include "lacuna/recording/import/sources.h"

namespace lacuna {
namespace {

constexpr const char* kH5pyScript = R"python(
import json, sys, warnings
warnings.simplefilter("ignore")
path, group, name, rows = sys.argv[1:5]
try:
    import h5py
except ImportError:
    sys.exit(f"{sys.executable} has no h5py; install it there, or name another with --python")
try:
    import hdf5plugin
except ImportError:
    pass
KNOWN = {32000: "lzf", 32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32015: "zstd", 32026: "blosc2"}
try:
    root = h5py.File(path, "r")
    root = root[group] if group else root
except (OSError, KeyError) as error:
    sys.exit(f"h5py cannot open it: {' '.join(str(error).split())}")

def missing(array):
    properties = array.id.get_create_plist()
    for i in range(properties.get_nfilters()):
        number, _, _, stored = properties.get_filter(i)
        if not h5py.h5z.filter_avail(number):
            return KNOWN.get(number, f"{stored.decode(errors='replace')} (number {number})")

def describe(arrays, skipped, unreadable, group, prefix):
    for key in group:
        link = group.get(key, getlink=True)
        if not isinstance(link, h5py.HardLink):
            continue
        try:
            value = group[key]
        except Exception as error:
            unreadable.append([prefix + key, f"h5py cannot open it: {' '.join(str(error).split())}"])
            continue
        if isinstance(value, h5py.Group):
            describe(arrays, skipped, unreadable, value, prefix + key + "/")
        elif not isinstance(value, h5py.Dataset) or value.dtype.kind not in "biuf" or value.ndim == 0:
            skipped.append(f"{prefix + key}: no array of numbers")
        elif missing(value):
            unreadable.append([prefix + key, f"no filter '{missing(value)}' is there, neither for libhdf5 nor for h5py; "
                               "pip install hdf5plugin, or write it again with gzip"])
        else:
            arrays.append(dict(name=prefix + key, dtype=value.dtype.name, shape=list(value.shape),
                               chunk=value.chunks[0] if value.chunks else 1))

def attributes(group):
    found = {}
    for key, value in group.attrs.items():
        value = value.tolist() if hasattr(value, "tolist") else value
        items = value if isinstance(value, list) else [value]
        if all(isinstance(item, (bool, int, str)) or (isinstance(item, float) and abs(item) < 1e308) for item in items):
            found[key] = value
    return found

if not name:
    arrays, skipped, unreadable, metadata, groups = [], [], [], {}, {}
    describe(arrays, skipped, unreadable, root, "")
    outer = root.file
    for part in ["", *(part for part in group.split("/") if part)]:  # a group says more than the one it lies in
        outer = outer[part] if part else outer
        metadata.update(attributes(outer))
    root.visititems(lambda path, value: groups.update({path: attributes(value)}) if isinstance(value, h5py.Group) else None)
    json.dump(dict(arrays=arrays, skipped=skipped, unreadable=unreadable, metadata=metadata, groups=groups), sys.stdout)
    sys.exit()
array, rows = root[name], int(rows)
try:
    for begin in range(0, len(array), rows):
        block = array[begin:begin + rows]
        sys.stdout.buffer.write(block.astype(block.dtype.newbyteorder("<"), copy=False).tobytes())
    sys.stdout.buffer.flush()
except OSError as error:
    sys.exit(f"rows from {begin} on cannot be read: {' '.join(str(error).split())}; copy the file again")
)python";

constexpr uint64_t kPipeBytes = 8 << 20;  // that Python reads at once

class ForeignH5py : public ForeignArray {
 public:
  ForeignH5py(std::string name, const fs::path& file, ElementType type, Shape shape,
              uint64_t chunk_rows, ForeignOptions options)
      : ForeignArray(std::move(name), "", type, std::move(shape)),
        file_(file),
        chunk_rows_(chunk_rows),
        options_(std::move(options)) {
    where = fmt::format("{}: /{}", file.string(), this->name);
  }

  // In order: a step back starts Python anew.
  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) override {
    if (!python_ || begin < next_) start();
    std::vector<std::byte> passed(row_bytes());
    for (; next_ < begin; ++next_) python_->read(passed);
    python_->read(out);
    next_ = end;
  }
  void release() override { python_.reset(); }
  std::optional<FieldPlace> place(std::string& why) const override {
    why = "its rows come through h5py";
    return {};
  }

 private:
  void start() {
    const uint64_t bytes = std::max<uint64_t>(row_bytes(), 1);
    const uint64_t rows = std::max(kPipeBytes / bytes / chunk_rows_, uint64_t(1)) * chunk_rows_;
    python_ = std::make_unique<PythonProcess>(
        options_.python, kH5pyScript,
        std::vector<std::string>{file_.string(), options_.group, name, std::to_string(rows)},
        where);
    next_ = 0;
  }

  fs::path file_;
  uint64_t chunk_rows_;
  ForeignOptions options_;
  std::unique_ptr<PythonProcess> python_;
  uint64_t next_ = 0;
};

}  // namespace

ForeignSource open_h5py(const fs::path& path, const ForeignOptions& options,
                        const std::string& why) {
  Json listed;
  try {
    PythonProcess python(options.python, kH5pyScript, {path.string(), options.group, "", "0"},
                         path.string());
    listed = parse_json(python.read_all(), "the list of " + path.string());
  } catch (const Error& error) {
    throw Error("{} ({})", error.what(), why);
  }
  ForeignSource source;
  source.skipped = listed.at("skipped").get<std::vector<std::string>>();
  source.metadata = listed.at("metadata");
  for (const auto& [group, values] : listed.at("groups").items()) source.groups[group] = values;
  for (const Json& entry : listed.at("unreadable"))
    source.unreadable.push_back(
        {entry.at(0), fmt::format("{}: /{}: {}", path.string(), entry.at(0).get<std::string>(),
                                  entry.at(1).get<std::string>())});
  for (const Json& array : listed.at("arrays")) {
    const auto name = array.at("name").get<std::string>();
    const auto type = element_type_from_name(array.at("dtype").get<std::string>());
    if (!type) {
      source.skipped.push_back(fmt::format("{}: elements of {} are not read here", name,
                                           array.at("dtype").get<std::string>()));
      continue;
    }
    source.arrays.push_back(
        std::make_unique<ForeignH5py>(name, path, *type, array.at("shape").get<Shape>(),
                                      array.at("chunk").get<uint64_t>(), options));
  }
  return source;
}

}  // namespace lacuna
