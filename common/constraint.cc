#include "common/constraint.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "common/units.h"

namespace launch {
namespace {

constexpr std::size_t kMaxConstraintBytes = 4096;
constexpr int kMaxTerms = 64;
constexpr int kMaxConstraintDepth = 16;
constexpr std::string_view kLabelPrefix = "label.";

enum class Op { kTrue, kEq, kNe, kGe, kLe, kGt, kLt };
enum class Kind { kVersion, kBytes, kCount, kText, kFlag };

struct Variable {
  std::string_view name;
  Kind kind;
  bool per_gpu;
};
constexpr std::array<Variable, 11> kVariables = {{
    {"cc", Kind::kVersion, true},
    {"gpu_mem", Kind::kBytes, true},
    {"nvlink", Kind::kFlag, true},
    {"gpus", Kind::kCount, false},
    {"driver", Kind::kVersion, false},
    {"cuda", Kind::kVersion, false},
    {"torch", Kind::kVersion, false},
    {"kernel", Kind::kVersion, false},
    {"cpus", Kind::kCount, false},
    {"memory", Kind::kBytes, false},
    {"arch", Kind::kText, false},
}};

std::vector<std::string> VariableNames() {
  std::vector<std::string> names;
  for (const Variable& variable : kVariables) names.emplace_back(variable.name);
  names.emplace_back("label.NAME");
  return names;
}

// "570.124.06" -> 570, 124, 6; stops at the first part that is no number ("2.13.0+cu126").
std::vector<long> VersionParts(std::string_view text) {
  std::vector<long> parts;
  std::size_t i = 0;
  while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
    long value = 0;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0 &&
           value < 1'000'000'000) {
      value = value * 10 + (text[i++] - '0');
    }
    parts.push_back(value);
    if (i >= text.size() || text[i] != '.') break;
    ++i;
  }
  return parts;
}

bool Compare(Op op, int order) {
  switch (op) {
    case Op::kTrue:
      return true;
    case Op::kEq:
      return order == 0;
    case Op::kNe:
      return order != 0;
    case Op::kGe:
      return order >= 0;
    case Op::kLe:
      return order <= 0;
    case Op::kGt:
      return order > 0;
    case Op::kLt:
      return order < 0;
  }
  return false;
}

std::string_view Text(Op op) {
  switch (op) {
    case Op::kTrue:
      return "";
    case Op::kEq:
      return "==";
    case Op::kNe:
      return "!=";
    case Op::kGe:
      return ">=";
    case Op::kLe:
      return "<=";
    case Op::kGt:
      return ">";
    case Op::kLt:
      return "<";
  }
  return "";
}

int CompareVersions(std::string_view has, const std::vector<long>& wanted) {
  std::vector<long> parts = VersionParts(has);
  parts.resize(wanted.size(), 0);
  return parts < wanted ? -1 : parts > wanted ? 1 : 0;
}

}  // namespace

struct Constraint::Node {
  enum class Shape { kTerm, kAnd, kOr, kNot } shape = Shape::kTerm;
  std::unique_ptr<Node> left;
  std::unique_ptr<Node> right;
  std::string variable;
  Kind kind = Kind::kText;
  Op op = Op::kTrue;
  std::string value;
  std::uint64_t number = 0;
  std::vector<long> version;

  struct Scene {
    const NodeInventory& node;
    const GpuDevice* gpu;
  };

  bool Eval(const Scene& scene, std::string* failed) const {
    switch (shape) {
      case Shape::kAnd:
        return left->Eval(scene, failed) && right->Eval(scene, failed);
      case Shape::kOr: {
        std::string first;
        if (left->Eval(scene, failed != nullptr ? &first : nullptr)) return true;
        if (right->Eval(scene, nullptr)) return true;
        if (failed != nullptr) *failed = std::move(first);
        return false;
      }
      case Shape::kNot:
        if (!left->Eval(scene, nullptr)) return true;
        if (failed != nullptr) *failed = "!" + left->Describe();
        return false;
      case Shape::kTerm:
        break;
    }
    if (EvalTerm(scene)) return true;
    if (failed != nullptr) *failed = Describe() + " (" + Has(scene) + ")";
    return false;
  }

  std::string Describe() const {
    switch (shape) {
      case Shape::kAnd:
        return "(" + left->Describe() + " && " + right->Describe() + ")";
      case Shape::kOr:
        return "(" + left->Describe() + " || " + right->Describe() + ")";
      case Shape::kNot:
        return "!" + left->Describe();
      case Shape::kTerm:
        break;
    }
    return variable + std::string(Text(op)) + value;
  }

  // Values of the node for the variable: several for torch, none when unknown.
  std::vector<std::string> Versions(const Scene& scene) const {
    std::vector<std::string> values;
    const NodeInventory& node = scene.node;
    if (variable == "cc" && scene.gpu != nullptr && scene.gpu->cc) {
      values.push_back(ToString(*scene.gpu->cc));
    } else if (variable == "driver" && node.driver) {
      values.push_back(*node.driver);
    } else if (variable == "cuda" && node.driver_cuda) {
      values.push_back(ToString(*node.driver_cuda));
    } else if (variable == "kernel" && !node.kernel.empty()) {
      values.push_back(node.kernel);
    } else if (variable == "torch") {
      for (const RuntimeFacts& runtime : node.interpreters) {
        if (runtime.torch) values.push_back(runtime.torch->version);
      }
    }
    return values;
  }

  std::optional<std::uint64_t> Number(const Scene& scene) const {
    const NodeInventory& node = scene.node;
    if (variable == "gpu_mem") {
      if (scene.gpu == nullptr) return std::nullopt;
      return scene.gpu->memory_bytes;
    }
    if (variable == "gpus") return node.gpus.size();
    if (variable == "cpus") return static_cast<std::uint64_t>(std::max(node.cores, 0));
    return node.memory_bytes;
  }

  std::optional<std::string> TextOf(const Scene& scene) const {
    if (variable == "arch") return std::string(ToString(scene.node.arch));
    const auto label = scene.node.labels.find(variable.substr(kLabelPrefix.size()));
    if (label == scene.node.labels.end()) return std::nullopt;
    return label->second;
  }

  bool EvalTerm(const Scene& scene) const {
    switch (kind) {
      case Kind::kFlag:
        return scene.gpu != nullptr &&
               std::any_of(scene.gpu->links.begin(), scene.gpu->links.end(),
                           [](const GpuLink& link) { return link.kind == LinkKind::kNvlink; });
      case Kind::kVersion: {
        const auto values = Versions(scene);
        return std::any_of(values.begin(), values.end(), [&](const std::string& has) {
          return Compare(op, CompareVersions(has, version));
        });
      }
      case Kind::kBytes:
      case Kind::kCount: {
        const auto has = Number(scene);
        return has && Compare(op, *has < number ? -1 : *has > number ? 1 : 0);
      }
      case Kind::kText: {
        const auto has = TextOf(scene);
        if (op == Op::kNe) return !has || *has != value;
        return has && (op == Op::kTrue || *has == value);
      }
    }
    return false;
  }

  std::string Has(const Scene& scene) const {
    if (kind == Kind::kFlag) return scene.gpu == nullptr ? "no GPU" : "no NVLink";
    if (kind == Kind::kVersion) {
      const auto values = Versions(scene);
      if (values.empty()) return "unknown";
      return "has " + values.front();
    }
    if (kind == Kind::kText) {
      const auto has = TextOf(scene);
      return has ? "has " + *has : "not set";
    }
    const auto has = Number(scene);
    if (!has) return "no GPU";
    return "has " + (kind == Kind::kBytes ? FormatBytes(*has) : std::to_string(*has));
  }
};

namespace {

bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("._+-").find(c) != std::string_view::npos;
}

}  // namespace

// Recursive descent: or := and {"||" and}, and := unary {"&&" unary}, unary := "!" unary | "(" or
// ")" | term, term := VARIABLE [OP VALUE].
class ConstraintParser {
 public:
  explicit ConstraintParser(std::string_view text) : text_(text) {}

  using NodePtr = std::unique_ptr<Constraint::Node>;

  Result<NodePtr> Parse() {
    if (text_.size() > kMaxConstraintBytes) return Bad("is longer than 4096 bytes");
    LAUNCH_ASSIGN_OR_RETURN(NodePtr root, Or(0));
    Skip();
    if (at_ < text_.size()) return Bad("expected && or ||", "join terms with && or ||");
    return root;
  }

 private:
  Unexpected Bad(std::string what, std::string hint = {}) const {
    return Fail(ErrorCode::kInvalidArgument,
                "constraints, column " + std::to_string(at_ + 1) + ": " + std::move(what),
                std::move(hint));
  }

  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool Take(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  Result<NodePtr> Binary(int depth, Constraint::Node::Shape shape) {
    const bool is_or = shape == Constraint::Node::Shape::kOr;
    LAUNCH_ASSIGN_OR_RETURN(NodePtr left,
                            is_or ? Binary(depth, Constraint::Node::Shape::kAnd) : Unary(depth));
    while (Take(is_or ? "||" : "&&")) {
      LAUNCH_ASSIGN_OR_RETURN(NodePtr right,
                              is_or ? Binary(depth, Constraint::Node::Shape::kAnd) : Unary(depth));
      auto node = std::make_unique<Constraint::Node>();
      node->shape = shape;
      node->left = std::move(left);
      node->right = std::move(right);
      left = std::move(node);
    }
    return left;
  }

  Result<NodePtr> Or(int depth) { return Binary(depth, Constraint::Node::Shape::kOr); }

  Result<NodePtr> Unary(int depth) {
    if (depth > kMaxConstraintDepth) return Bad("is nested deeper than 16");
    Skip();
    if (at_ + 1 < text_.size() && text_[at_] == '!' && text_[at_ + 1] != '=') {
      ++at_;
      auto node = std::make_unique<Constraint::Node>();
      node->shape = Constraint::Node::Shape::kNot;
      LAUNCH_ASSIGN_OR_RETURN(node->left, Unary(depth + 1));
      return node;
    }
    if (Take("(")) {
      LAUNCH_ASSIGN_OR_RETURN(NodePtr inner, Or(depth + 1));
      if (!Take(")")) return Bad("expected )", "close the bracket");
      return inner;
    }
    return Term();
  }

  Result<NodePtr> Term() {
    if (++terms_ > kMaxTerms) return Bad("has more than 64 terms");
    Skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
    auto node = std::make_unique<Constraint::Node>();
    node->variable = std::string(text_.substr(begin, at_ - begin));
    const std::size_t end = at_;
    at_ = begin;  // errors below are about the variable
    if (node->variable.empty()) {
      return Bad(
          begin >= text_.size() ? "expected a variable, found the end" : "expected a variable",
          "variables: cc gpu_mem gpus driver cuda torch arch cpus memory nvlink kernel "
          "label.NAME");
    }
    LAUNCH_ASSIGN_OR_RETURN(node->kind, KindOf(node->variable));
    at_ = end;
    LAUNCH_ASSIGN_OR_RETURN(node->op, Operator());
    if (node->op == Op::kTrue) {
      if (node->kind == Kind::kFlag || node->variable.rfind(kLabelPrefix, 0) == 0) return node;
      return Bad(node->variable + " needs a comparison", "e.g. " + Example(node->variable));
    }
    if (node->kind == Kind::kFlag) {
      return Bad(node->variable + " is true or not: it takes no value", "write nvlink or !nvlink");
    }
    LAUNCH_RETURN_IF_ERROR(Value(*node));
    return node;
  }

  Result<Kind> KindOf(const std::string& name) const {
    for (const Variable& variable : kVariables) {
      if (variable.name == name) return variable.kind;
    }
    if (name.rfind(kLabelPrefix, 0) == 0 && name.size() > kLabelPrefix.size()) return Kind::kText;
    const std::string nearest = NearestName(name, VariableNames());
    return Bad("unknown variable \"" + name + "\"",
               nearest.empty() ? "variables: cc gpu_mem gpus driver cuda torch arch cpus memory "
                                 "nvlink kernel label.NAME"
                               : "did you mean " + nearest + "?");
  }

  static std::string Example(const std::string& name) {
    if (name == "gpu_mem" || name == "memory") return name + ">=24GB";
    if (name == "arch") return "arch==aarch64";
    if (name == "driver") return "driver>=550";
    return name == "cc" ? "cc>=8.0" : name + ">=1";
  }

  Result<Op> Operator() {
    Skip();
    for (const auto& [text, op] : {std::pair<std::string_view, Op>{"==", Op::kEq},
                                   {"!=", Op::kNe},
                                   {">=", Op::kGe},
                                   {"<=", Op::kLe},
                                   {">", Op::kGt},
                                   {"<", Op::kLt}}) {
      if (Take(text)) return op;
    }
    if (at_ < text_.size() && text_[at_] == '=') return Bad("= is not a comparison", "write ==");
    if (text_.substr(at_, 1) == "&" && text_.substr(at_, 2) != "&&") {
      return Bad("a single & joins nothing", "write &&");
    }
    return Op::kTrue;
  }

  Result<void> Value(Constraint::Node& node) {
    Skip();
    const std::size_t begin = at_;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const std::size_t close = text_.find(text_[at_], at_ + 1);
      if (close == std::string_view::npos) return Bad("the quote is never closed");
      node.value = std::string(text_.substr(at_ + 1, close - at_ - 1));
      at_ = close + 1;
    } else {
      while (at_ < text_.size() && (IsWordChar(text_[at_]) || text_[at_] == '/')) ++at_;
      node.value = std::string(text_.substr(begin, at_ - begin));
    }
    const std::size_t end = std::exchange(at_, begin);
    if (node.value.empty())
      return Bad("expected a value behind " + node.variable, "e.g. " + Example(node.variable));
    LAUNCH_RETURN_IF_ERROR(ReadValue(node));
    at_ = end;
    return {};
  }

  Result<void> ReadValue(Constraint::Node& node) const {
    switch (node.kind) {
      case Kind::kFlag:
        break;
      case Kind::kVersion:
        node.version = VersionParts(node.value);
        if (node.version.empty()) {
          return Bad("\"" + node.value + "\" is not a version", "e.g. " + Example(node.variable));
        }
        break;
      case Kind::kCount: {
        const auto number = ParseInt(node.value);
        if (!number || *number < 0) {
          return Bad("\"" + node.value + "\" is not a number", "e.g. " + Example(node.variable));
        }
        node.number = static_cast<std::uint64_t>(*number);
        break;
      }
      case Kind::kBytes: {
        if (std::isdigit(static_cast<unsigned char>(node.value.back())) != 0) {
          return Bad(node.variable + " needs a unit",
                     "e.g. " + node.variable + ">=" + node.value + "GB");
        }
        const auto size = ParseBytes(node.value);
        if (!size) return Bad(size.error().message, "e.g. " + Example(node.variable));
        node.number = size->bytes;
        break;
      }
      case Kind::kText:
        if (node.op != Op::kEq && node.op != Op::kNe) {
          return Bad(node.variable + " can only be compared with == or !=",
                     "write " + node.variable + "==" + node.value);
        }
        if (node.variable == "arch") {
          const auto arch = ParseArch(node.value);
          if (!arch) return Bad("unknown arch \"" + node.value + "\"", "x86_64 or aarch64");
          node.value = std::string(ToString(*arch));
        }
        break;
    }
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int terms_ = 0;
};

Result<Constraint> Constraint::Parse(std::string_view text) {
  LAUNCH_ASSIGN_OR_RETURN(std::unique_ptr<Node> root, ConstraintParser(text).Parse());
  return Constraint(std::move(root));
}

bool Constraint::HoldsFor(const NodeInventory& node, const GpuDevice& gpu,
                          std::string* failed) const {
  return root_->Eval(Node::Scene{node, &gpu}, failed);
}

bool Constraint::Holds(const NodeInventory& node, std::string* failed) const {
  if (node.gpus.empty()) return root_->Eval(Node::Scene{node, nullptr}, failed);
  std::string first;
  for (const GpuDevice& gpu : node.gpus) {
    std::string why;
    if (HoldsFor(node, gpu, &why)) return true;
    if (first.empty()) first = std::move(why);
  }
  if (failed != nullptr) *failed = std::move(first);
  return false;
}

Constraint::Constraint(std::unique_ptr<Node> root) : root_(std::move(root)) {}
Constraint::Constraint(Constraint&&) noexcept = default;
Constraint& Constraint::operator=(Constraint&&) noexcept = default;
Constraint::~Constraint() = default;

}  // namespace launch
