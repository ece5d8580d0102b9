// The built program: convert, verify and inspect of bundles, as a user and a script meet them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli_test_process.h"
#include "tests/support/json_schema.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json Parsed(const Outcome& outcome, const char* schema) {
  EXPECT_THAT(testing::ValidateText(schema, outcome.out), IsEmpty()) << outcome.out << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

TEST(ConvertProgram, FromCheckpointToAnswer) {
  const test::TempDir dir;
  const std::string bundle = dir.File("b");
  const Outcome converted =
      Minicpm({"convert", TinyModel("minicpm-v-4_5"), bundle, "--keep", "llm.model.layers.0.*_proj.weight=bf16"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_EQ(converted.out, "");
  EXPECT_THAT(converted.err, HasSubstr("tensors"));

  const json verified = Parsed(Minicpm({"verify", bundle, "--json"}), "verify.schema.json");
  EXPECT_EQ(verified["ok"], true);
  EXPECT_EQ(verified["selftest"]["run"], true);
  EXPECT_EQ(verified["selftest"]["tokens"], 32);
  const Outcome text = Minicpm({"verify", bundle, "--no-selftest", "--threads", "1"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("all is well"));

  const json facts = Parsed(Minicpm({"inspect", bundle, "--json", "--tensors"}), "inspect.schema.json");
  EXPECT_EQ(facts["bundle"]["recipe"]["weights"], "int4");
  EXPECT_EQ(facts["bundle"]["accuracy"], "not measured");
  EXPECT_EQ(facts["bundle"]["selftest"], true);
  EXPECT_TRUE(facts["dtypes"].contains("INT4"));
  EXPECT_FALSE(facts["dtypes"].contains("U8"));
  const Outcome table = Minicpm({"inspect", bundle});
  for (const char* word :
       {"7-bit weights, one scale per row", "4.25 bits, groups of 32", "not measured", "made", "error"}) {
    EXPECT_THAT(table.out, HasSubstr(word));
  }
  const Outcome run = Minicpm({"run", bundle, "-p", "x", "--max-new-tokens", "2", "--json"});
  EXPECT_EQ(Parsed(run, "run.schema.json")["model"]["weights_sha256"], facts["weights_sha256"]);
}

TEST(ConvertProgram, DamageIsNamedAndExitsWithOne) {
  const test::TempDir dir;
  const std::string bundle = dir.File("b");
  ASSERT_EQ(Minicpm({"convert", "--synthetic", TinyModel("minicpm-v-2_6") + "/config.json", bundle}).exit_code, 0);
  std::string bytes = test::ReadFileBytes(bundle + "/weights.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  dir.Write("b/weights.safetensors", bytes);
  const Outcome text = Minicpm({"verify", bundle});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.err, HasSubstr("llm.lm_head.weight"));
  const Outcome outcome = Minicpm({"verify", bundle, "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const json report = Parsed(outcome, "verify.schema.json");
  EXPECT_EQ(report["ok"], false);
  ASSERT_EQ(report["problems"].size(), 1u);
  EXPECT_EQ(report["problems"][0]["tensor"], "llm.lm_head.weight");
}

TEST(ConvertProgram, WrongUsageExitsWithTwo) {
  const test::TempDir dir;
  const std::string model = TinyModel("minicpm-v-2_6");
  const std::vector<std::vector<std::string>> wrong = {
      {"convert"},
      {"convert", model},
      {"convert", model, dir.File("b"), "--weights", "int3"},
      {"convert", model, dir.File("b"), "--vision", "int3"},
      {"convert", model, dir.File("b"), "--keep", "x*=bf16"},
      {"convert", model, dir.File("b"), "--seed", "3"},
      {"convert", model, dir.File("b"), "--created", "yesterday"},
      {"convert", "--synthetic", "gpt-2", dir.File("b")},
      {"convert", "--synthetic", "minicpm-v-4_5", model, dir.File("b")},
      {"verify"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = Minicpm(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(dir.File("b")));
  EXPECT_EQ(Minicpm({"verify", model}).exit_code, 1);
  EXPECT_EQ(Minicpm({"convert", dir.File("none"), dir.File("b")}).exit_code, 1);
}

TEST(ConvertProgram, HelpHasExamples) {
  for (const char* command : {"convert", "verify"}) {
    const Outcome outcome = Minicpm({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
  }
}

}  // namespace
}  // namespace minicpm::cli
