// ScreenLoader: batches of a screen, made ahead of time by C++ threads.
#include "lacuna/graph/removal.h"
#include "lacuna/ladder/rung_source.h"
#include "loader_front.h"

namespace lacuna::python {
namespace {

using ScreenBatches = Loader<RungSource>;
using ScreenArrays = BatchArrays<RungBatch>;

class ScreenLoader : public LoaderFront<ScreenBatches> {
 public:
  ScreenLoader(const Screen& screen, std::optional<std::vector<uint32_t>> selection,
               std::vector<std::string> columns, const std::string& rung, const fs::path& store,
               const OrderSettings& order, int threads, std::optional<uint64_t> prefetch,
               const nb::object& progress)
      : screen_(screen), columns_(columns) {
    const RungOptions options = {rung_from_name(rung, kScreenRungs), store};
    run_long(progress, [&](Progress& p) {
      masks_ = RungMasks(screen_, screen_.graph(), options, p);
      const RungSource source(screen_, masks_, order.global_batch,
                              {std::move(selection), std::move(columns)});
      start(std::make_unique<ScreenBatches>(
          source, LoaderSettings{order, threads, prefetch.value_or(masks_.prefetch(threads))}));
    });
  }

  nb::object next() {
    BatchRef<RungBatch> batch = take();
    if (!batch) return nb::none();
    return arrays(ScreenArrays(std::move(batch)));
  }
  uint64_t samples() const { return loader().source().size(); }

 private:
  // sample [B] i64, removed [ptr[B]] i32, ptr [B + 1] i32, label [B, L] f32, each column [B],
  // masks [B, stride] u8 where the rung loads them
  nb::dict arrays(const ScreenArrays& arrays) const {
    const ScreenBatch& batch = arrays.batch().samples();
    const size_t size = batch.size();
    nb::dict all;
    all["sample"] = arrays.view(reinterpret_cast<const int64_t*>(batch.samples().data()), {size});
    all["removed"] = arrays.view(batch.removed().data(), {batch.removed().size()});
    all["ptr"] = arrays.view(batch.ptr().data(), {size + 1});
    all["label"] = arrays.view(batch.labels().data(), {size, batch.label_count()});
    for (size_t c = 0; c < columns_.size(); ++c) {
      const ColumnValues& column = batch.columns()[c];
      all[columns_[c].c_str()] =
          arrays.view(column.bytes().data(), {size}, dlpack_of(column.dtype()));
    }
    if (masks_.loads_masks()) all["masks"] = masks(arrays);
    return all;
  }

  nb::object masks(const ScreenArrays& arrays) const {
    const RungBatch& batch = arrays.batch();
    const size_t size = batch.size(), stride = masks_.layout().stride();
    if (batch.block()) return arrays.view(batch.block(), {size, stride});
    auto* copy = new std::vector<uint8_t>(size * stride);  // views of a store lie apart
    for (size_t b = 0; b < size; ++b)
      std::copy_n(batch.records()[b], stride, copy->data() + b * stride);
    const nb::capsule owner(copy,
                            [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
    const size_t shape[] = {size, stride};
    return nb::cast(nb::ndarray<nb::numpy, uint8_t>(copy->data(), 2, shape, owner));
  }

  Screen screen_;
  std::vector<std::string> columns_;
  RungMasks masks_;
};

// Where the masks of a screen's node and edge types lie in a record: [(name, elements, offset)].
nb::list mask_sections(const Screen& screen) {
  const MaskLayout layout(RemovalRules(screen.graph()), MaskForm::u8);
  nb::list all;
  for (const auto& section : layout.sections())
    all.append(nb::make_tuple(section.name, section.count, section.offset));
  return all;
}

// ptr [genes + 1], place: what torch.ops.lacuna.masks reads, as u32.
nb::tuple mask_table(const Screen& screen) {
  const RemovalRules rules(screen.graph());
  MaskTable table(rules, MaskLayout(rules, MaskForm::u8));
  return nb::make_tuple(numpy_view(Array::from(std::move(table.ptr))),
                        numpy_view(Array::from(std::move(table.place))));
}

}  // namespace

void bind_screen_loader(nb::module_& module) {
  module.def("mask_sections", &mask_sections);
  module.def("mask_table", &mask_table);
  nb::class_<ScreenLoader>(module, "ScreenLoader")
      .def(
          "__init__",
          [](ScreenLoader* self, const Screen& screen,
             std::optional<std::vector<uint32_t>> selection, std::vector<std::string> columns,
             const std::string& rung, const fs::path& store, uint64_t batch, uint64_t seed,
             bool shuffle, bool drop_last, uint32_t rank, uint32_t world, int threads,
             std::optional<uint64_t> prefetch, const nb::object& progress) {
            const OrderSettings order = {.global_batch = batch,
                                         .seed = seed,
                                         .shuffled = shuffle,
                                         .remainder = drop_last ? Remainder::drop : Remainder::keep,
                                         .rank = rank,
                                         .world = world};
            new (self) ScreenLoader(screen, std::move(selection), std::move(columns), rung, store,
                                    order, threads, prefetch, progress);
          },
          nb::arg("screen"), nb::arg("selection").none(), nb::arg("columns"), nb::arg("rung"),
          nb::arg("store"), nb::arg("batch"), nb::arg("seed"), nb::arg("shuffle"),
          nb::arg("drop_last"), nb::arg("rank"), nb::arg("world"), nb::arg("threads"),
          nb::arg("prefetch").none(), nb::arg("progress").none())
      .def("next", &ScreenLoader::next)
      .def("state", &ScreenLoader::state)
      .def("seek", &ScreenLoader::seek)
      .def_prop_ro("batches", &ScreenLoader::batches)
      .def_prop_ro("samples", &ScreenLoader::samples);
}

}  // namespace lacuna::python
