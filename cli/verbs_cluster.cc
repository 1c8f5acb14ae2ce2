// nodes, drain, undrain, token, login, version: the cluster and who belongs to it.
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/node_text.h"
#include "cli/render_json.h"
#include "common/clock.h"
#include "common/credential_files.h"
#include "common/hostlist.h"
#include "common/inventory_yaml.h"
#include "common/pki.h"
#include "common/plural.h"
#include "common/units.h"
#include "common/version.h"

namespace launch {
namespace {

struct NodesOptions {
  std::string names;  // hostlist; empty = all
  std::string save;
};

Result<int> RunNodes(const App& app, const NodesOptions& options) {
  std::vector<std::string> wanted;
  if (!options.names.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(wanted, ExpandHostlist(options.names));
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<NodeView> nodes, client.Nodes());
  for (const std::string& name : wanted)
    if (std::none_of(nodes.begin(), nodes.end(),
                     [&](const NodeView& node) { return node.inventory.node.value == name; }))
      return Fail(ErrorCode::kNotFound, "no node is called " + name, "`launch nodes` lists them");
  if (!wanted.empty())
    std::erase_if(nodes, [&](const NodeView& node) {
      return std::find(wanted.begin(), wanted.end(), node.inventory.node.value) == wanted.end();
    });
  std::vector<NodeInventory> inventories;
  inventories.reserve(nodes.size());
  for (const NodeView& node : nodes) inventories.push_back(node.inventory);
  if (!options.save.empty()) {
    std::ofstream out(options.save, std::ios::binary);
    out << FormatInventories(inventories);
    out.close();
    if (!out) return FailErrno("write " + options.save, errno);
    app.Note("saved " + WithPlural(static_cast<std::int64_t>(inventories.size()), "node") +
             "; plan with --inventory " + options.save);
    return 0;
  }
  if (app.WantsJson()) {
    app.OutDocument(NodesJson(nodes));
  } else if (app.WantsYaml()) {
    app.OutBytes(FormatInventories(inventories));
  } else if (app.WantsName()) {
    for (const NodeInventory& node : inventories) app.Out(node.node.value + "\n");
  } else {
    LAUNCH_RETURN_IF_ERROR(app.OutTable(NodesTable(nodes, app.ScreenNow())));
    if (!options.names.empty() && !app.WantsCells())
      for (const NodeView& node : nodes) app.Out("\n" + NodeText(node));
  }
  return 0;
}

struct DrainOptions {
  std::string nodes;
  std::string reason;
  bool requeue = false;
  bool wait = false;
};

Result<std::vector<JobId>> JobsOn(Client& client, const std::vector<std::string>& names) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  std::set<JobId> jobs;
  for (const NodeView& node : nodes) {
    const auto named = std::find(names.begin(), names.end(), node.inventory.node.value);
    if (named != names.end()) jobs.insert(node.jobs.begin(), node.jobs.end());
  }
  return std::vector<JobId>(jobs.begin(), jobs.end());
}

Result<void> RequeueJobsOn(const App& app, Client& client, const std::vector<std::string>& names) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> jobs, JobsOn(client, names));
  if (jobs.empty()) return {};
  JobChange change;
  change.action = JobAction::kRequeue;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<ChangeAnswer> answers, client.Change({jobs, change}));
  for (const ChangeAnswer& answer : answers)
    app.Note("job " + std::to_string(answer.job.value) + ": " +
             (answer.error.empty() ? answer.says : answer.error));
  return {};
}

Result<void> AwaitIdle(Client& client, const std::vector<std::string>& names) {
  constexpr Millis kBetweenLooks(500);
  for (;;) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> jobs, JobsOn(client, names));
    if (jobs.empty()) return {};
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

Result<int> RunDrain(const App& app, const DrainOptions& options, bool undrain) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandHostlist(options.nodes));
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  std::vector<std::string> done;
  int code = 0;
  for (const std::string& name : names) {
    const Result<void> drained = client.Drain({NodeId{name}, undrain, options.reason});
    const bool unknown = !drained && drained.error().code == ErrorCode::kNotFound;
    if (!drained && (names.size() == 1 || !unknown)) return Unexpected(drained.error());
    if (unknown) {  // the others are meant all the same
      app.Note(FormatError(drained.error()));
      code = ExitCodeOf(drained.error().code);
      continue;
    }
    done.push_back(name);
    app.Note(undrain ? name + " takes jobs again"
                     : name + " takes no new jobs" +
                           (options.requeue ? "" : "; what runs there goes on"));
  }
  if (options.requeue) LAUNCH_RETURN_IF_ERROR(RequeueJobsOn(app, client, done));
  if (options.wait) LAUNCH_RETURN_IF_ERROR(AwaitIdle(client, done));
  if (app.WantsJson() || app.WantsYaml()) app.OutDocument(DrainJson(done, !undrain));
  return code;
}

Result<int> RunForget(const App& app, const std::string& nodes) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandHostlist(nodes));
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  for (const std::string& name : names) {
    LAUNCH_RETURN_IF_ERROR(client.ForgetNode(NodeId{name}));
    app.Note(name + " is forgotten; it comes back when its agent does");
  }
  return 0;
}

struct TokenOptions {
  std::string node;
  std::string user;
  std::string life;
  std::vector<std::string> addresses;
};

Result<int> RunTokenCreate(const App& app, const TokenOptions& options) {
  if (options.node.empty() == options.user.empty())
    return Fail(ErrorCode::kInvalidArgument, "a token is for one node or for one user",
                "launch token create --node gpu07, or --user ana");
  TokenCall call;
  call.role = options.node.empty() ? "user" : "node";
  call.name = options.node.empty() ? options.user : options.node;
  call.addresses = options.addresses;
  if (!options.life.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(call.life, ParseDuration(options.life));
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(TokenMade token, client.CreateToken(call));
  app.Note("secret, works once; serial " + token.serial);
  app.Note(call.role == "node" ? "on the node: launch-agent join < FILE"
                               : "as the user: launch login < FILE");
  app.Out(token.token + "\n");
  return 0;
}

Result<int> RunTokenList(const App& app) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<TokenRow> rows, client.ListTokens());
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(TokensJson(rows));
    return 0;
  }
  if (app.WantsName()) {
    for (const TokenRow& row : rows) app.Out(row.serial + "\n");
    return 0;
  }
  Table table;
  table.columns = {{"SERIAL", false, false}, {"TOKEN", false, true}};
  for (const TokenRow& row : rows) table.rows.push_back({row.serial, row.says});
  if (!rows.empty() || app.WantsCells()) LAUNCH_RETURN_IF_ERROR(app.OutTable(table));
  return 0;
}

Result<int> RunTokenRevoke(const App& app, const RevokeCall& call) {
  const bool of_node = !call.node.value.empty();
  const bool of_user = !call.user.value.empty();
  if ((call.serial.empty() ? 0 : 1) + (of_node ? 1 : 0) + (of_user ? 1 : 0) != 1)
    return Fail(ErrorCode::kInvalidArgument, "one token, one node or one user is revoked at a time",
                "launch token revoke SERIAL (of `token list`), --user ana, or --node gpu07");
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_RETURN_IF_ERROR(client.RevokeToken(call));
  if (of_node)
    app.Note("node " + call.node.value +
             " is shut out; its jobs run on until it is fenced (`launch node fence`). To let it in "
             "again: launch token create --node " +
             call.node.value + ", and join with --rejoin");
  if (of_user)
    app.Note("user " + call.user.value +
             " is shut out, and no operator any more; the jobs go on. To let them in again: launch "
             "token create --user " +
             call.user.value);
  return 0;
}

Result<void> WriteSecret(const std::filesystem::path& path, const std::string& text) {
  const mode_t before = umask(077);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  umask(before);
  if (!out) return FailErrno("write " + path.string(), errno);
  return {};
}

// Never the token itself: everybody on this machine may read a command line.
Result<std::string> ReadToken(const std::string& file) {
  std::string line;
  if (file.empty() || file == "-") {
    std::getline(std::cin, line);
    return line;
  }
  if (file.starts_with("launch-join-"))
    return Fail(ErrorCode::kInvalidArgument, "--token takes a file, and this is a token itself",
                "everybody on this machine can read command lines: have a new token made, and give "
                "it on stdin or in a file");
  std::ifstream in(file);
  if (!in || !std::getline(in, line))
    return Fail(ErrorCode::kNotFound, "cannot read a token from " + file,
                "the line of `launch token create --user NAME` belongs there");
  return line;
}

// The token is itself a certificate: it opens the connection on which our own key is signed.
Result<int> RunLogin(const App& app, const std::string& into, const std::string& as,
                     const std::string& token_file) {
  namespace fs = std::filesystem;
  LAUNCH_ASSIGN_OR_RETURN(const std::string line, ReadToken(token_file));
  LAUNCH_ASSIGN_OR_RETURN(JoinToken token, ParseJoinToken(line));
  LAUNCH_ASSIGN_OR_RETURN(CertificateFacts facts, ReadCertificate(token.certificate_pem));
  if (!facts.identity.name.starts_with("user:"))
    return Fail(ErrorCode::kInvalidArgument, "the token is for " + facts.identity.name,
                "a user's token is made by: launch token create --user NAME");
  Contexts contexts(Contexts::DefaultDir());
  const std::string& given = as.empty() ? app.context : as;
  const std::string name = given.empty() ? facts.identity.cluster : given;
  if (into.empty()) LAUNCH_RETURN_IF_ERROR(Contexts::CheckName(name));
  const std::string known = contexts.Dir(name) + "/ca.pem";
  if (std::ifstream in(known, std::ios::binary); into.empty() && in) {
    const std::string ca_pem{std::istreambuf_iterator<char>(in), {}};
    if (ca_pem != token.ca_pem)
      return Fail(ErrorCode::kAlreadyExists, "another cluster called " + name + " is known here",
                  "give this one another name here: --as NAME; the token is still good");
  }
  const std::string dir = into.empty() ? contexts.Dir(name) : into;
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return FailErrno("make directory " + dir, error.value());
  fs::permissions(dir, fs::perms::owner_all, error);
  const fs::path joiner = fs::path(dir) / "joiner";
  fs::create_directories(joiner, error);
  LAUNCH_RETURN_IF_ERROR(WriteSecret(joiner / "ca.pem", token.ca_pem));
  LAUNCH_RETURN_IF_ERROR(WriteSecret(joiner / "cert.pem", token.certificate_pem));
  LAUNCH_RETURN_IF_ERROR(WriteSecret(joiner / "key.pem", token.key_pem));
  LAUNCH_ASSIGN_OR_RETURN(KeyPair key, MakeKey());
  LAUNCH_ASSIGN_OR_RETURN(std::string csr, MakeCsr(key));
  Result<Client::Joined> joined =
      Fail(ErrorCode::kInvalidArgument, "the token names no controller");
  std::string address;
  for (const std::string& one : token.addresses) {
    address = one;
    LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open({one, joiner.string(), false}));
    joined = client.Join({csr, false});
    if (joined || joined.error().code != ErrorCode::kUnavailable) break;
  }
  fs::remove_all(joiner, error);
  if (!joined) {
    SystemClock clock;
    return Unexpected(ExplainFailedJoin(std::move(joined).error(), token, clock.WallNow()));
  }
  PosixFileSystem files;
  LAUNCH_RETURN_IF_ERROR(
      WriteCredentials(files, fs::absolute(dir).string(),
                       {joined->ca_pem, joined->certificate_pem, key.private_pem}));
  LAUNCH_RETURN_IF_ERROR(WriteSecret(fs::path(dir) / "address", address + "\n"));
  if (into.empty()) {
    LAUNCH_RETURN_IF_ERROR(contexts.Use(name));
    app.Note("you are " + joined->identity + "; " + name +
             " is the current cluster (`launch context`)");
  } else {
    app.Note("you are " + joined->identity + "; from now on: export LAUNCH_CREDENTIALS=" + into);
  }
  return 0;
}

Result<int> RunVersion(const App& app) {
  if (app.WantsJson() || app.WantsYaml())
    app.OutDocument(VersionJson());
  else
    app.Out("launch " + std::string(Version()) + "\n");
  return 0;
}

void AddNodes(CLI::App& parser, const char* name, const char* help, App& app) {
  auto options = std::make_shared<NodesOptions>();
  CLI::App* nodes = parser.add_subcommand(name, help);
  app.listing.insert(nodes);
  nodes->add_option("nodes", options->names, "Only these nodes: gpu[01-04]");
  nodes->add_option("--save", options->save,
                    "Write an inventory file for `plan --inventory` and `check --inventory`");
  nodes->callback([&app, options] {
    if (!app.run) app.run = [&app, options] { return RunNodes(app, *options); };
  });
}

void AddDrain(CLI::App& parser, App& app) {
  auto options = std::make_shared<DrainOptions>();
  CLI::App* drain = parser.add_subcommand("drain", "Stop giving nodes new jobs");
  drain->add_option("nodes", options->nodes, "gpu[01-04]")->required();
  drain->add_option("--reason", options->reason, "Reason, shown in `launch nodes`")->required();
  drain->add_flag("--requeue", options->requeue, "Also stop their jobs and queue them again");
  drain->add_flag("--wait", options->wait, "Return when no job is left on them");
  drain->callback(
      [&app, options] { app.run = [&app, options] { return RunDrain(app, *options, false); }; });
  CLI::App* undrain = parser.add_subcommand("undrain", "Give nodes new jobs again");
  undrain->add_option("nodes", options->nodes, "gpu[01-04]")->required();
  undrain->callback(
      [&app, options] { app.run = [&app, options] { return RunDrain(app, *options, true); }; });
}

void AddToken(CLI::App& parser, App& app) {
  CLI::App* token =
      parser.add_subcommand("token", "Manage join tokens, which are short-lived and single-use")
          ->require_subcommand(1);
  auto options = std::make_shared<TokenOptions>();
  CLI::App* create = token->add_subcommand("create", "Create a token and print it; keep it secret");
  create->add_option("--node", options->node, "Token for a node of this name");
  create->add_option("--user", options->user, "Token for a user of this name");
  create->add_option("--life", options->life, "How long the token is valid (default 15m)");
  create->add_option("--address", options->addresses,
                     "Controller address that the joining machine can reach");
  create->callback(
      [&app, options] { app.run = [&app, options] { return RunTokenCreate(app, *options); }; });
  CLI::App* list = token->add_subcommand("list", "List unused tokens");
  app.listing.insert(list);
  list->callback([&app] { app.run = [&app] { return RunTokenList(app); }; });
  auto call = std::make_shared<RevokeCall>();
  CLI::App* revoke =
      token->add_subcommand("revoke", "Revoke a token, or all certificates of a user or a node");
  revoke->add_option("serial", call->serial, "An unused token listed by `launch token list`");
  revoke->add_option("--user", call->user.value, "Revoke all certificates of this user");
  revoke->add_option("--node", call->node.value, "Revoke all certificates of this node");
  revoke->callback([&app, call] { app.run = [&app, call] { return RunTokenRevoke(app, *call); }; });
}

}  // namespace

void AddClusterVerbs(CLI::App& parser, App& app) {
  AddNodes(parser, "nodes", "List nodes, their hardware, and who uses them", app);
  CLI::App* node = parser.add_subcommand("node", "Manage nodes")->require_subcommand(1);
  AddNodes(*node, "status", "The same as `launch nodes`", app);
  AddDrain(*node, app);
  AddDrain(parser, app);
  auto gone = std::make_shared<std::string>();
  CLI::App* forget = node->add_subcommand("forget", "Remove nodes that are gone from the lists");
  forget->add_option("nodes", *gone, "gpu[01-04]")->required();
  forget->callback([&app, gone] { app.run = [&app, gone] { return RunForget(app, *gone); }; });
  AddToken(parser, app);

  auto dir = std::make_shared<std::string>();
  auto as = std::make_shared<std::string>();
  auto token_file = std::make_shared<std::string>();
  CLI::App* login =
      parser.add_subcommand("login", "Log in to a cluster with a token from standard input");
  login->add_option("--token", *token_file, "Read the token from this file; - is standard input");
  CLI::Option* into = login->add_option(
      "--into", *dir,
      "Store the credentials in this directory; default: a context named after the cluster");
  login
      ->add_option("--as", *as,
                   "Name of the cluster in `launch context`; default: the cluster's own name")
      ->excludes(into);
  login->callback([&app, dir, as, token_file] {
    app.run = [&app, dir, as, token_file] { return RunLogin(app, *dir, *as, *token_file); };
  });

  parser.add_subcommand("version", "Print the version of this program")->callback([&app] {
    app.run = [&app] { return RunVersion(app); };
  });
}

}  // namespace launch
