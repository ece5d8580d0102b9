// Helpers for the tests of this room: tiny models, whole folders compared. Not for other rooms.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "convert/convert.h"
#include "convert/synthetic.h"
#include "tests/support/temp_dir.h"

namespace minicpm::test {

inline constexpr const char* kCreated = "2026-01-02T03:04:05Z";

inline std::string TinyModelFolder(const std::string& family) {
  return std::string(MINICPM_SOURCE_DIR) + "/models/tiny/" + family;
}

inline ConvertOptions TinyConversion(const std::string& family, const std::string& folder, const std::string& weights) {
  ConvertOptions options;
  options.checkpoint = TinyModelFolder(family);
  options.folder = folder;
  options.recipe.weights = weights;
  options.tool = "test";
  options.created_utc = kCreated;
  options.selftest = false;
  options.n_threads = 2;
  return options;
}

// A synthetic bundle of the tiny shapes.
inline SyntheticOptions TinySynthetic(const std::string& family, const std::string& folder) {
  SyntheticOptions options;
  options.model = TinyModelFolder(family) + "/config.json";
  options.folder = folder;
  options.tool = "test";
  options.created_utc = kCreated;
  options.n_threads = 2;
  return options;
}

// Name -> content of every file in a folder.
inline std::map<std::string, std::string> FolderContent(const std::string& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      content[std::filesystem::relative(entry.path(), folder).generic_string()] = ReadFileBytes(entry.path().string());
    }
  }
  return content;
}

// Says which files differ; a full dump of weights would say nothing.
inline ::testing::AssertionResult SameFolders(const std::string& a, const std::string& b) {
  const auto first = FolderContent(a);
  const auto second = FolderContent(b);
  std::string different;
  for (const auto& [name, content] : first) {
    const auto it = second.find(name);
    if (it == second.end() || it->second != content) different += " " + name;
  }
  for (const auto& [name, content] : second) {
    if (!first.contains(name)) different += " " + name;
  }
  if (different.empty() && !first.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "these files differ:" << different;
}

}  // namespace minicpm::test
