#include "lacuna/run/predict/prediction_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/text/csv.h"
#include "lacuna/store/npz.h"

namespace lacuna {
namespace {

// The first alias, or its own name.
const std::string& standard_name(const Names& genes, uint32_t gene) {
  const std::vector<std::string>& aliases = genes.aliases(gene);
  return aliases.empty() ? genes[gene] : aliases.front();
}

class CsvFile : public PredictionFile {
 public:
  CsvFile(const fs::path& path, PredictionLayout layout)
      : whole_(path), layout_(std::move(layout)), file_(whole_.temporary()) {
    layout_.widest = std::max(layout_.widest, 1u);  // of the wild type alone, too
    if (!layout_.note.empty()) file_.write(layout_.note + "\n");
    for (uint32_t i = 1; i <= layout_.widest; ++i) add_cell(fmt::format("gene_{}", i));
    for (uint32_t i = 1; has_names() && i <= layout_.widest; ++i)
      add_cell(fmt::format("name_{}", i));
    for (const std::string& label : layout_.labels) add_cell(csv_cell(label));
    end_line();
  }

  void add(std::span<const uint32_t> genes, std::span<const float> predicted) override {
    for (const uint32_t gene : genes) add_cell(csv_cell(layout_.genes[gene]));
    line_.append(layout_.widest - genes.size(), ',');
    if (has_names()) {
      for (const uint32_t gene : genes) add_cell(csv_cell(standard_name(layout_.genes, gene)));
      line_.append(layout_.widest - genes.size(), ',');
    }
    for (const float value : predicted) {
      fmt::format_to(std::back_inserter(line_), "{}", value);  // the shortest that reads back
      line_ += ',';
    }
    end_line();
  }

  void close() override {
    file_.close();
    whole_.commit();
  }

 private:
  bool has_names() const { return layout_.genes.alias_count() > 0; }
  void add_cell(std::string_view cell) {
    line_ += cell;
    line_ += ',';
  }
  void end_line() {
    line_.back() = '\n';  // in place of the last comma
    file_.write(line_);
    line_.clear();
  }
  AtomicFile whole_;
  PredictionLayout layout_;
  FileWriter file_;
  std::string line_;
};

class NpzFile : public PredictionFile {
 public:
  NpzFile(const fs::path& path, const PredictionLayout& layout)
      : file_(path),
        no_gene_(layout.genes.size()),
        widest_(layout.widest),
        index_type_(smallest_index_type(uint64_t(no_gene_) + 1)),
        genes_(file_.add("genes", index_type_, {layout.samples, layout.widest})),
        predictions_(file_.add("predictions", DType::f32, {layout.samples, layout.labels.size()})) {
    std::vector<std::string> names = layout.genes.all();
    names.emplace_back();
    file_.add("gene_names", names);
    if (layout.genes.alias_count() > 0) {
      for (uint32_t gene = 0; gene < layout.genes.size(); ++gene)
        names[gene] = standard_name(layout.genes, gene);
      file_.add("standard_names", names);
    }
    file_.add("labels", layout.labels);
    if (!layout.note.empty()) file_.add("shard", std::vector{layout.note});
  }

  void add(std::span<const uint32_t> genes, std::span<const float> predicted) override {
    row_.assign(genes.begin(), genes.end());
    row_.resize(widest_, no_gene_);
    if (index_type_ == DType::u8) append_genes<uint8_t>();
    if (index_type_ == DType::u16) append_genes<uint16_t>();
    if (index_type_ == DType::u32) append_genes<uint32_t>();
    file_.append<float>(predictions_, predicted);
  }

  void close() override { file_.close(); }

 private:
  template <class T>
  void append_genes() {
    const std::vector<T> narrow(row_.begin(), row_.end());
    file_.append<T>(genes_, narrow);
  }

  NpzWriter file_;
  uint32_t no_gene_, widest_;
  DType index_type_;
  size_t genes_, predictions_;
  std::vector<uint32_t> row_;
};

}  // namespace

std::vector<std::string> predicted_labels(const std::vector<std::string>& head) {
  size_t genes = 0, names = 0;
  while (genes < head.size() && head[genes] == fmt::format("gene_{}", genes + 1)) ++genes;
  while (names < genes && genes + names < head.size() &&
         head[genes + names] == fmt::format("name_{}", names + 1))
    ++names;
  if (names < genes) names = 0;  // then it is a label that is called so
  return {head.begin() + ptrdiff_t(genes + names), head.end()};
}

void check_prediction_path(const fs::path& path) {
  if (path.extension() != ".csv" && path.extension() != ".npz")
    throw UsageError("predictions go into a file that ends in .csv or .npz, not '{}'",
                     path.string());
}

std::unique_ptr<PredictionFile> create_prediction_file(const fs::path& path,
                                                       PredictionLayout layout) {
  check_prediction_path(path);
  if (path.extension() == ".csv") return std::make_unique<CsvFile>(path, std::move(layout));
  return std::make_unique<NpzFile>(path, layout);
}

}  // namespace lacuna
