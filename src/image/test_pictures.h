// The committed pictures of tests/data/images and what their pixels must be; and the drawn test pattern. For tests
// only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/picture.h"

namespace minicpm {

struct TestPicture {
  std::string file;
  int width = 0;
  int height = 0;
  uint32_t crc32 = 0;
};

inline std::string TestPicturePath(const std::string& file) { return MINICPM_SOURCE_DIR "/tests/data/images/" + file; }

// The rows of a CSV file, split at commas, without comments and without the line of column names.
inline std::vector<std::vector<std::string>> ReadCsv(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  std::string line;
  bool named = false;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (!named) {
      named = true;
      continue;
    }
    std::istringstream fields(line);
    std::vector<std::string> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    rows.push_back(row);
  }
  return rows;
}

inline std::vector<TestPicture> TestPictures() {
  std::vector<TestPicture> pictures;
  for (const auto& row : ReadCsv(TestPicturePath("expected.csv"))) {
    pictures.push_back(
        {row.at(0), std::stoi(row.at(1)), std::stoi(row.at(2)), static_cast<uint32_t>(std::stoul(row.at(3)))});
  }
  return pictures;
}

inline std::vector<std::byte> ReadTestPicture(const std::string& file) {
  std::ifstream stream(TestPicturePath(file), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

}  // namespace minicpm
