// Files of torch.save. Python lists the tensors (torch.load with weights_only, mapped: nothing is
// read), and says at which byte of the file each begins; the elements are then read from the file
// itself, so that Python holds none of them.
#include "lacuna/core/error.h"
#include "lacuna/recording/import/python_process.h"
#include "lacuna/recording/import/raw_array.h"
#include "lacuna/recording/import/sources.h"

namespace lacuna {
namespace {

constexpr const char* kTorchScript = R"python(
import json, math, os, re, sys, warnings
warnings.simplefilter("ignore")
path = sys.argv[1]
try:
    import torch
except ImportError:
    sys.exit(f"{sys.executable} has no torch; name a Python that has with --python")
try:  # numbers and arrays of NumPy are data, as tensors are
    import numpy
    core = getattr(numpy, "_core", None) or numpy.core
    torch.serialization.add_safe_globals(
        [core.multiarray._reconstruct, core.multiarray.scalar, numpy.ndarray, numpy.dtype]
        + [getattr(numpy.dtypes, name) for name in dir(numpy.dtypes) if name.endswith("DType")])
except (ImportError, AttributeError):
    numpy = None
try:
    data = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
except Exception as error:
    words = str(error)
    found = re.search(r"GLOBAL (\S+)", words)
    if found:
        sys.exit(f"it holds a {found.group(1)}, which torch.load does not open with weights_only; "
                 "save tensors, numbers and texts alone")
    if "mmap can only be used" in words:
        sys.exit("it is of torch's old format; load it and torch.save it again")
    sys.exit(f"torch cannot load it: {words.splitlines()[0] if words else type(error).__name__}")

real = os.path.realpath(path)
regions = []
for line in open("/proc/self/maps"):
    words = line.split(maxsplit=5)
    if len(words) == 6 and words[5].rstrip("\n") == real:
        begin, end = (int(word, 16) for word in words[0].split("-"))
        regions.append((begin, end, int(words[2], 16)))

def offset(tensor):
    address = tensor.untyped_storage().data_ptr()
    for begin, end, start in regions:
        if begin <= address < end:
            return address - begin + start + tensor.storage_offset() * tensor.element_size()
    return 0 if tensor.numel() == 0 else None

def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no name for it
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, torch.Tensor) or (numpy and isinstance(value, (numpy.ndarray, numpy.generic))):
        return plain(value.tolist()) if getattr(value, "nbytes", 0) < 1 << 20 else None
    return str(value)

arrays, skipped, metadata = [], [], {}
def visit(name, value):
    if isinstance(value, dict):
        for key, item in value.items():
            visit(f"{name}/{key}" if name else str(key), item)
    elif isinstance(value, torch.Tensor) and value.layout == torch.strided and value.dim() > 0:
        place = offset(value)
        if place is None or value.is_neg() or value.is_conj():
            skipped.append(f"{name}: its bytes do not lie in the file")
        else:
            arrays.append(dict(name=name, dtype=str(value.dtype).removeprefix("torch."), shape=list(value.shape),
                               strides=list(value.stride()), offset=place))
    elif isinstance(value, torch.Tensor) and value.dim() == 0:
        metadata[name] = plain(value)
    elif numpy and isinstance(value, numpy.ndarray) and value.ndim:
        skipped.append(f"{name}: a NumPy array inside the pickle; save torch.from_numpy of it")
    elif isinstance(value, (bool, int, float, str, list, tuple)):
        metadata[name] = plain(value)
    else:
        skipped.append(f"{name}: a {type(value).__name__} is no array of numbers")
if not isinstance(data, dict):
    sys.exit(f"it holds a {type(data).__name__}, not a dictionary of tensors")
for part in sys.argv[2].split("/") if sys.argv[2] else ():
    if not isinstance(data, dict) or part not in data:
        sys.exit(f"it has no '{sys.argv[2]}'")
    data = data[part]
if "covariates" in data:
    metadata.update(plain(data.get("metadata") or {}))
    data = data["covariates"]
elif "metadata" in data:
    metadata.update(plain(data.pop("metadata") or {}))
visit("", data)
json.dump(dict(arrays=arrays, skipped=skipped, metadata=metadata), sys.stdout)
)python";

}  // namespace

ForeignSource open_torch(const fs::path& path, const ForeignOptions& options) {
  if (!fs::is_regular_file(path)) throw Error("{}: no such file", path.string());
  PythonProcess python(options.python, kTorchScript, {path.string(), options.group}, path.string());
  const Json listed = parse_json(python.read_all(), "the list of " + path.string());
  ForeignSource source;
  source.skipped = listed.at("skipped").get<std::vector<std::string>>();
  for (const auto& [key, value] : listed.at("metadata").items()) {
    const size_t slash = key.rfind('/');  // of a dictionary inside
    (slash == key.npos
         ? source.metadata
         : source.groups[key.substr(0, slash)])[key.substr(slash == key.npos ? 0 : slash + 1)] =
        value;
  }
  for (const Json& array : listed.at("arrays")) {
    const auto name = array.at("name").get<std::string>();
    const auto dtype = array.at("dtype").get<std::string>();
    const auto type = element_type_from_name(dtype);
    if (!type) {
      source.skipped.push_back(fmt::format("{}: elements of {} are not read here", name, dtype));
      continue;
    }
    source.arrays.push_back(std::make_unique<RawArray>(
        path, name, fmt::format("{}: {}", path.string(), name), *type,
        array.at("shape").get<Shape>(),
        RawArray::Layout{.offset = array.at("offset").get<uint64_t>(),
                         .strides = array.at("strides").get<std::vector<uint64_t>>()}));
  }
  return source;
}

}  // namespace lacuna
