// HDF5 through libhdf5: contiguous and chunked data, deflate, shuffle, fletcher32, and whatever
// filter the library has been given. Other filters, and files of a version that it does not know,
// go through h5py (h5py_file.cpp).
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/recording/import/sources.h"

namespace lacuna {
namespace {

// An identifier of the library, closed with its owner.
class Hid {
 public:
  using Close = herr_t (*)(hid_t);
  Hid(hid_t id, Close close) : id_(id), close_(close) {}
  ~Hid() {
    if (id_ >= 0) close_(id_);
  }
  Hid(Hid&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hid& operator=(Hid&&) = delete;
  operator hid_t() const { return id_; }
  bool is_valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

// While it lives the library prints nothing of its own; last_error() has its words.
class QuietHdf5 {
 public:
  QuietHdf5() {
    ::H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    ::H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~QuietHdf5() { ::H5Eset_auto2(H5E_DEFAULT, print_, data_); }

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

// The innermost of the library's messages: the one that says what happened.
std::string last_error() {
  std::string words = "an error without words";
  ::H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned number, const H5E_error2_t* error, void* into) -> herr_t {
        if (number == 0 && error->desc) *static_cast<std::string*>(into) = error->desc;
        return 0;
      },
      &words);
  return words;
}

std::string filter_name(H5Z_filter_t id, const char* stored) {
  constexpr std::array<std::pair<H5Z_filter_t, const char*>, 12> kKnown = {
      {{H5Z_FILTER_DEFLATE, "deflate"},
       {H5Z_FILTER_SHUFFLE, "shuffle"},
       {H5Z_FILTER_FLETCHER32, "fletcher32"},
       {H5Z_FILTER_SZIP, "szip"},
       {5, "nbit"},
       {6, "scaleoffset"},
       {32000, "lzf"},
       {32001, "blosc"},
       {32004, "lz4"},
       {32008, "bitshuffle"},
       {32015, "zstd"},
       {32026, "blosc2"}}};
  for (const auto& [known, name] : kKnown)
    if (known == id) return name;
  return *stored ? fmt::format("{} (number {})", stored, id) : fmt::format("number {}", id);
}

// The first filter that the library has not; empty: it has all.
std::string missing_filter(hid_t properties) {
  const int count = ::H5Pget_nfilters(properties);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    size_t values = 0;
    char name[64] = {};
    const H5Z_filter_t id = ::H5Pget_filter2(properties, unsigned(i), &flags, &values, nullptr,
                                             sizeof name, name, &config);
    if (::H5Zfilter_avail(id) <= 0) return filter_name(id, name);
  }
  return {};
}

bool is_boolean_enum(hid_t type) {
  return ::H5Tget_class(type) == H5T_ENUM && ::H5Tget_size(type) == 1 &&
         ::H5Tget_nmembers(type) == 2;
}

std::optional<ElementType> float_type(hid_t type) {
  size_t sign, exponent, exponent_bits, fraction, fraction_bits;
  if (::H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) < 0)
    return {};
  const size_t size = ::H5Tget_size(type);
  if (size == 2 && exponent_bits == 5 && fraction_bits == 10) return ElementType::f16;
  if (size == 2 && exponent_bits == 8 && fraction_bits == 7) return ElementType::bf16;
  if (size == 4 && exponent_bits == 8 && fraction_bits == 23) return ElementType::f32;
  if (size == 8 && exponent_bits == 11 && fraction_bits == 52) return ElementType::f64;
  return {};
}

std::optional<ElementType> integer_type(hid_t type) {
  const size_t size = ::H5Tget_size(type);
  if (::H5Tget_precision(type) != size * 8) return {};
  constexpr std::array<ElementType, 4> kSigned = {ElementType::i8, ElementType::i16,
                                                  ElementType::i32, ElementType::i64};
  constexpr std::array<ElementType, 4> kUnsigned = {ElementType::u8, ElementType::u16,
                                                    ElementType::u32, ElementType::u64};
  const bool is_signed = ::H5Tget_sign(type) == H5T_SGN_2;
  for (size_t i = 0; i < 4; ++i)
    if (size == size_t(1) << i) return is_signed ? kSigned[i] : kUnsigned[i];
  return {};
}

std::optional<ElementType> element_type_of(hid_t type) {
  if (::H5Tget_class(type) == H5T_FLOAT) return float_type(type);
  if (::H5Tget_class(type) == H5T_INTEGER) return integer_type(type);
  if (is_boolean_enum(type)) return ElementType::boolean;
  return {};
}

class ForeignHdf5 : public ForeignArray {
 public:
  ForeignHdf5(std::string name, const fs::path& file, std::string path, ElementType type,
              Shape shape, std::shared_ptr<const Hid> open_file, Hid dataset)
      : ForeignArray(std::move(name), fmt::format("{}: {}", file.string(), path), type,
                     std::move(shape)),
        path_(file),
        file_(std::move(open_file)),
        dataset_(std::move(dataset)),
        type_(::H5Dget_type(dataset_), ::H5Tclose),
        properties_(::H5Dget_create_plist(dataset_), ::H5Pclose),
        is_big_endian_(::H5Tget_order(type_) == H5T_ORDER_BE) {}

  uint64_t rows_together() const override {
    std::vector<hsize_t> chunk(shape.size());
    if (::H5Pget_layout(properties_) != H5D_CHUNKED ||
        ::H5Pget_chunk(properties_, int(chunk.size()), chunk.data()) < 0)
      return 1;
    return chunk[0];
  }

  void read_rows(uint64_t begin, uint64_t end, std::span<std::byte> out) override {
    LACUNA_ASSERT(out.size() == (end - begin) * row_bytes());
    if (out.empty()) return;
    const QuietHdf5 quiet;
    std::vector<hsize_t> start(shape.size(), 0), count(shape.begin(), shape.end());
    start[0] = begin, count[0] = end - begin;
    const Hid file_space(::H5Dget_space(dataset_), ::H5Sclose);
    const Hid memory_space(::H5Screate_simple(int(count.size()), count.data(), nullptr),
                           ::H5Sclose);
    ::H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    if (::H5Dread(dataset_, type_, memory_space, file_space, H5P_DEFAULT, out.data()) < 0)
      throw Error(
          "{}: rows {} to {} cannot be read: {}; the file was damaged or cut short: copy "
          "it again",
          where, begin, end - 1, last_error());
    if (is_big_endian_) swap_bytes(out, item_size(type));
  }

  std::optional<FieldPlace> place(std::string& why) const override {
    if (::H5Pget_layout(properties_) == H5D_CHUNKED)
      why = "its rows lie in chunks of HDF5";
    else if (::H5Pget_layout(properties_) != H5D_CONTIGUOUS)
      why = "its rows lie inside the file's header, not in one piece of their own";
    else if (::H5Pget_external_count(properties_) > 0)
      why = "its rows lie in other files";
    else if (is_big_endian_ && item_size(type) > 1)
      why = "its elements are big endian";
    else if (const haddr_t offset = ::H5Dget_offset(dataset_); offset == HADDR_UNDEF)
      why = "no row of it was ever written";
    else if (offset % item_size(type) != 0)
      why = fmt::format("it starts at byte {}, unaligned", offset);
    else
      return FieldPlace{.file = path_, .offset = offset, .in_place = true};
    return {};
  }

 private:
  fs::path path_;
  std::shared_ptr<const Hid> file_;
  Hid dataset_, type_, properties_;
  bool is_big_endian_;
};

// ---- attributes of a group: numbers, texts, and lists of them
std::vector<std::string> read_texts(hid_t attribute, hid_t type, size_t count) {
  std::vector<std::string> texts;
  if (::H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(count, nullptr);
    const Hid memory(::H5Tcopy(type), ::H5Tclose);
    if (::H5Aread(attribute, memory, pointers.data()) < 0) return {};
    for (char* const pointer : pointers) {
      texts.emplace_back(pointer ? pointer : "");
      ::H5free_memory(pointer);
    }
    return texts;
  }
  const size_t size = ::H5Tget_size(type);
  std::string all(size * count, '\0');
  if (::H5Aread(attribute, type, all.data()) < 0) return {};
  for (size_t i = 0; i < count; ++i)
    texts.emplace_back(all.substr(i * size, std::min(all.find('\0', i * size) - i * size, size)));
  return texts;
}

Json read_numbers_of(hid_t attribute, hid_t type, size_t count) {
  Json numbers = Json::array();
  if (::H5Tget_class(type) == H5T_INTEGER) {
    std::vector<int64_t> values(count);
    if (::H5Aread(attribute, H5T_NATIVE_INT64, values.data()) >= 0) numbers = values;
  } else {
    std::vector<double> values(count);
    if (::H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) >= 0) numbers = values;
  }
  return numbers;
}

void read_attribute(hid_t group, const char* name, Json& metadata) {
  constexpr hssize_t kMost = 100'000;
  const Hid attribute(::H5Aopen(group, name, H5P_DEFAULT), ::H5Aclose);
  const Hid type(::H5Aget_type(attribute), ::H5Tclose);
  const Hid space(::H5Aget_space(attribute), ::H5Sclose);
  const hssize_t count = ::H5Sget_simple_extent_npoints(space);
  if (count < 1 || count > kMost) return;
  const H5T_class_t kind = ::H5Tget_class(type);
  Json values = Json::array();
  if (kind == H5T_STRING) values = read_texts(attribute, type, size_t(count));
  if (kind == H5T_FLOAT || kind == H5T_INTEGER)
    values = read_numbers_of(attribute, type, size_t(count));
  if (values.empty()) return;
  metadata[name] = ::H5Sget_simple_extent_ndims(space) == 0 ? values[0] : values;
}

void read_attributes(hid_t group, Json& metadata) {
  hsize_t at = 0;
  ::H5Aiterate2(
      group, H5_INDEX_NAME, H5_ITER_INC, &at,
      [](hid_t in, const char* name, const H5A_info_t*, void* data) -> herr_t {
        read_attribute(in, name, *static_cast<Json*>(data));
        return 0;
      },
      &metadata);
}

// Goes through a file; what only h5py reads is remembered.
struct Hdf5Visit {
  fs::path file;
  std::shared_ptr<const Hid> open_file;
  ForeignSource source;
  std::vector<std::pair<std::string, std::string>> missing;  // array, and what is missing

  void visit_dataset(hid_t group, const char* link, const std::string& name) {
    Hid dataset(::H5Dopen2(group, link, H5P_DEFAULT), ::H5Dclose);
    if (!dataset.is_valid()) {
      missing.emplace_back(name, "libhdf5 cannot open it: " + last_error());
      return;
    }
    const Hid type(::H5Dget_type(dataset), ::H5Tclose);
    const Hid space(::H5Dget_space(dataset), ::H5Sclose);
    const Hid properties(::H5Dget_create_plist(dataset), ::H5Pclose);
    const auto element = element_type_of(type);
    const int dimensions = ::H5Sget_simple_extent_ndims(space);
    if (!element) {
      source.skipped.push_back(name + ": neither bool nor integers nor floats");
    } else if (dimensions < 1) {
      source.skipped.push_back(name + ": one number, without a time axis");
    } else if (const std::string filter = missing_filter(properties); !filter.empty()) {
      missing.emplace_back(name, fmt::format("libhdf5 has no filter '{}'", filter));
    } else {
      std::vector<hsize_t> extents(static_cast<size_t>(dimensions));
      ::H5Sget_simple_extent_dims(space, extents.data(), nullptr);
      source.arrays.push_back(std::make_unique<ForeignHdf5>(name, file, "/" + name, *element,
                                                            Shape(extents.begin(), extents.end()),
                                                            open_file, std::move(dataset)));
    }
  }

  void visit_group(hid_t group, const std::string& name) {
    struct Call {
      Hdf5Visit* visit;
      const std::string* name;
      std::exception_ptr thrown;
    } call = {this, &name, nullptr};
    hsize_t at = 0;
    const auto each = [](hid_t in, const char* link, const H5L_info_t* info, void* data) -> herr_t {
      Call& call = *static_cast<Call*>(data);
      try {
        if (info->type == H5L_TYPE_SOFT || info->type == H5L_TYPE_EXTERNAL) return 0;
        H5O_info_t object;
        if (::H5Oget_info_by_name(in, link, &object, H5P_DEFAULT) < 0) {
          call.visit->missing.emplace_back(link, "libhdf5 cannot open it: " + last_error());
          return 0;
        }
        const std::string inside = call.name->empty() ? link : *call.name + "/" + link;
        if (object.type == H5O_TYPE_DATASET) call.visit->visit_dataset(in, link, inside);
        if (object.type == H5O_TYPE_GROUP) {
          const Hid next(::H5Gopen2(in, link, H5P_DEFAULT), ::H5Gclose);
          read_attributes(
              next, call.visit->source.groups.try_emplace(inside, Json::object()).first->second);
          if (std::ranges::count(inside, '/') < 16) call.visit->visit_group(next, inside);
        }
        return 0;
      } catch (...) {
        call.thrown = std::current_exception();
        return -1;
      }
    };
    const herr_t result = ::H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, each, &call);
    if (call.thrown) std::rethrow_exception(call.thrown);
    if (result < 0) missing.emplace_back(name, "libhdf5 cannot list it: " + last_error());
  }
};

}  // namespace

ForeignSource open_hdf5(const fs::path& path, const ForeignOptions& options) {
  if (!fs::is_regular_file(path)) throw Error("{}: no such file", path.string());
  const QuietHdf5 quiet;
  Hdf5Visit visit;
  visit.file = path;
  visit.open_file =
      std::make_shared<const Hid>(::H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), ::H5Fclose);
  if (!visit.open_file->is_valid())
    return open_h5py(path, options, "libhdf5 cannot open it: " + last_error());
  const Hid group(::H5Gopen2(*visit.open_file, options.group.empty() ? "/" : options.group.c_str(),
                             H5P_DEFAULT),
                  ::H5Gclose);
  if (!group.is_valid())
    throw Error("{}: no group '{}'; h5ls -r lists them", path.string(), options.group);
  read_attributes(*visit.open_file, visit.source.metadata);
  std::string inner;  // a group says more than the one it lies in
  for (const fs::path& part : fs::path(options.group)) {
    inner += (inner.empty() ? "" : "/") + part.string();
    const Hid outer(::H5Gopen2(*visit.open_file, inner.c_str(), H5P_DEFAULT), ::H5Gclose);
    if (outer.is_valid()) read_attributes(outer, visit.source.metadata);
  }
  visit.visit_group(group, "");
  if (visit.missing.empty()) return std::move(visit.source);

  // What libhdf5 does not read comes from h5py; the rest stays with libhdf5.
  ForeignSource& source = visit.source;
  try {
    ForeignSource others = open_h5py(path, options, visit.missing.front().second);
    for (auto& array : others.arrays)
      if (std::ranges::none_of(source.arrays,
                               [&](const auto& have) { return have->name == array->name; }))
        source.arrays.push_back(std::move(array));
    for (auto& unreadable : others.unreadable) source.unreadable.push_back(std::move(unreadable));
  } catch (const Error& error) {
    for (const auto& [name, why] : visit.missing)
      source.unreadable.push_back({name, fmt::format("{}: /{}: {}, and h5py did not help ({})",
                                                     path.string(), name, why, error.what())});
  }
  return std::move(source);
}

}  // namespace lacuna
