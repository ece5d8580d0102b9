// GoldenCase: one committed case of reference/dump.py (tests/data/golden): what was asked, and what every stage must
// hold. Reading only; golden_test.cc compares.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/checkpoint.h"

namespace minicpm::test {

struct GoldenCase {
  std::string family;
  std::string name;
  std::string folder;
  std::string prompt;
  std::string text;
  std::vector<std::string> images;  // full paths
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> token_ids;
  std::vector<double> margins;
  struct View {
    int64_t image, width, height, grid_rows, grid_cols, first_token;
    std::string pixels_sha256;
  };
  std::vector<View> views;
  std::vector<std::vector<int64_t>> slice_grids;  // per image: cols, rows
  struct Sound {
    std::string path;  // full
    int64_t first_token, rows;
  };
  std::vector<Sound> sounds;  // after the images and before the prompt, which is then empty when there was none
};

// Aborts the test program when the case cannot be read: the data is part of the repository.
GoldenCase ReadGoldenCase(const std::string& family, const std::string& name);

// Stage dumps: values of a stage and, when only some rows were kept, which.
class GoldenStages {
 public:
  explicit GoldenStages(const std::string& folder);
  // Keys without the "#rows" companions.
  std::vector<std::string> keys() const;
  bool Has(const std::string& key) const { return by_name_.contains(key); }
  TensorView Values(const std::string& key) const;
  // Row numbers of the kept rows; all rows when nothing was left out.
  std::vector<int64_t> Rows(const std::string& key) const;

 private:
  SafetensorsFile file_;
  std::map<std::string, TensorView> by_name_;
};

}  // namespace minicpm::test
