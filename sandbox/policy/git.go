package policy

import (
	"slices"
	"strings"
)

// git checks a line of git by the grammar of its subcommand. A subcommand that is not
// in the table is refused: it may be an alias, which is a command line, or run
// another program, as difftool does.
//
// git still runs its hooks and the programs in .git/config of the workspace.
func (k *checker) git(words []word) error {
	given, rest, err := gitGlobal(words)
	if err != nil {
		return err
	}
	if err := plainTo(words, rest); err != nil {
		return err
	}
	if len(rest) == 0 {
		if slices.Contains(given, option{"version", ""}) {
			return nil
		}
		return denied("Name a subcommand.", "git without a subcommand is not allowed")
	}
	if err := k.notDenied(slices.Concat(words[:1], rest)); err != nil {
		return err
	}
	name, rest := rest[0].text, rest[1:]
	if verbs, ok := gitVerbs(name); ok {
		switch {
		case len(rest) > 0 && !dashes(rest[0]) && slices.Contains(strings.Fields(verbs), rest[0].text):
			name, rest = name+" "+rest[0].text, rest[1:]
		case len(rest) > 0 && !dashes(rest[0]):
			return denied("Allowed of git "+name+": "+verbs+".", "git %s %s is not allowed: it may run another program", name, rest[0].raw)
		}
	}
	o, ok := gitOptions(name)
	if !ok {
		return denied("Use a subcommand such as git log instead of an alias.", "git %s is not allowed: it may run another program", name)
	}
	o.negated = true
	o.dir = gitDir(given)
	given, operands, err := k.parseArgs("git", o, rest)
	if err != nil {
		return err
	}
	if verbs, ok := gitVerbs(name); ok && name != "stash" && len(operands) > 0 {
		return denied("Write one of these first: "+verbs+".", "options of git %s are not allowed before its verb", name)
	}
	if err := gitShows(name, given); err != nil {
		return err
	}
	return gitOperands(name, given, operands)
}

// plainTo refuses a pattern before rest or as its first word: the file names that it
// expands to would move the words after it.
func plainTo(words, rest []word) error {
	for _, w := range words[:min(len(words)-len(rest)+1, len(words))] {
		if !w.static || w.glob >= 0 {
			return denied("Write it out.", "%s is not allowed before the subcommand of %s, or as the subcommand", w.raw, words[0].text)
		}
	}
	return nil
}

func gitGlobals() options {
	return options{
		values: "Cc", operandsEnd: true,
		long: "no-pager version no-replace-objects literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs no-optional-locks no-lazy-fetch no-advice",
	}
}

// gitGlobal reads the options before the subcommand.
func gitGlobal(words []word) (given []option, rest []word, err error) {
	given, rest, err = gitGlobals().parse(words[1:])
	for _, g := range given {
		if err == nil {
			err = checkGitGlobal(g)
		}
	}
	return given, rest, err
}

// gitDir returns the directory in which git runs. Each -C is relative to the one
// before it.
func gitDir(given []option) string {
	var dirs []string
	for _, g := range given {
		switch {
		case g.name == "C" && strings.HasPrefix(g.value, "/"):
			dirs = []string{g.value}
		case g.name == "C" && g.value != "":
			dirs = append(dirs, g.value)
		}
	}
	return strings.Join(dirs, "/")
}

func checkGitGlobal(g option) error {
	switch g.name {
	case "C":
		if !inWorkspace(g.value) {
			return denied("Name a path in the workspace, without ..", "git must not change to %s", g.value)
		}
	case "c":
		if key, value, ok := strings.Cut(g.value, "="); !ok || !gitSetting(key, value) {
			return denied("Allowed: user.name, user.email, color.ui, core.pager=cat and others that choose no program.", "the setting %s of git is not known to be harmless", g.value)
		}
	}
	return nil
}

// gitSetting reports whether a setting is known to choose no program and no file
// from which git reads settings.
func gitSetting(key, value string) bool {
	const yesNo = "true false"
	key = strings.ToLower(key)
	if name, ok := strings.CutPrefix(key, "advice."); ok && isName(name) {
		return slices.Contains(strings.Fields(yesNo), value)
	}
	allowed, ok := map[string]string{
		"user.name": "*", "user.email": "*", "author.name": "*", "author.email": "*", "committer.name": "*", "committer.email": "*",
		"color.ui": "always never auto true false", "color.diff": "always never auto", "color.status": "always never auto", "color.grep": "always never auto",
		"core.pager": "cat", "core.editor": "true :", "sequence.editor": "true :", "core.quotepath": yesNo, "core.autocrlf": "true false input", "core.filemode": yesNo,
		"core.fsmonitor": "false", "core.hookspath": "/dev/null", "core.safecrlf": "true false warn", "commit.gpgsign": "false", "tag.gpgsign": "false",
		"diff.noprefix": yesNo, "diff.renames": "true false copies", "diff.algorithm": "patience histogram minimal myers", "init.defaultbranch": "main master trunk",
		"pull.rebase": yesNo, "pull.ff": "true false only", "merge.conflictstyle": "merge diff3 zdiff3", "merge.ff": "true false only", "rebase.autosquash": yesNo, "rebase.autostash": yesNo,
		"push.default": "nothing current upstream simple matching", "push.autosetupremote": yesNo, "fetch.prune": yesNo, "log.showsignature": "false", "gc.auto": "0",
	}[key]
	return ok && (allowed == "*" || slices.Contains(strings.Fields(allowed), value))
}

func isName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// gitOperands checks the words that are neither options nor their values.
func gitOperands(name string, given []option, operands []word) error {
	switch name {
	case "clone", "fetch", "pull", "push", "ls-remote", "remote add", "remote set-url", "submodule add", "submodule set-url":
		for _, w := range operands {
			// ext::COMMAND is a remote that is a command; other words start git-remote-WORD.
			if !w.static || strings.Contains(w.text, "::") || strings.Contains(w.text, "://-") {
				return denied("Name a remote, a path or an https URL.", "the remote %s is not allowed for git: it may be a command", w.raw)
			}
		}
	case "config":
		return gitConfig(given, operands)
	case "help":
		if len(operands) > 0 {
			return denied("Use git help alone, or read man where it is allowed.", "git help %s is not allowed: it starts man", operands[0].raw)
		}
	}
	return nil
}

// gitConfig allows reading settings, and writing those that -c may set.
func gitConfig(given []option, operands []word) error {
	for _, g := range given {
		switch g.name {
		case "get", "get-all", "get-regexp", "get-urlmatch", "list", "l":
			return nil
		}
	}
	for _, w := range operands {
		if !w.static || w.glob >= 0 {
			return denied("Write it out.", "%s must be constant: it decides what git config does", w.raw)
		}
	}
	switch {
	case len(operands) == 1 && (operands[0].text == "list" || strings.Contains(operands[0].text, ".")):
		return nil // reads
	case len(operands) == 2 && operands[0].text == "get":
		return nil // reads, or is an error to an older git
	case len(operands) == 2 && gitSetting(operands[0].text, operands[1].text):
		return nil
	}
	return denied("Allowed: --list, --get NAME, and setting user.name, user.email and others that choose no program.", "this use of git config is not allowed: a setting can choose what git runs")
}

// gitVerbs returns the allowed verbs of a subcommand, if it has verbs.
func gitVerbs(name string) (verbs string, ok bool) {
	switch name {
	case "bisect":
		return "start good bad new old skip reset log terms next", true // not run, view
	case "remote":
		return "add rename remove rm show prune get-url set-url set-head set-branches update", true
	case "stash":
		return "push pop apply drop list show clear branch save", true
	case "submodule":
		return "add status init deinit update summary sync set-branch set-url absorbgitdirs", true // not foreach
	case "worktree":
		return "add list lock move prune remove repair unlock", true
	case "notes":
		return "add append copy list show remove prune get-ref", true
	}
	return "", false
}

const (
	gitDiffLong = "patch no-patch unified? function-context raw patch-with-raw patch-with-stat numstat shortstat dirstat? cumulative dirstat-by-file? check summary name-only name-status " +
		"stat? stat-width= stat-name-width= stat-graph-width= stat-count= compact-summary binary full-index color? ws-error-highlight= abbrev? src-prefix= dst-prefix= line-prefix= " +
		"no-prefix default-prefix inter-hunk-context= output-indicator-new= output-indicator-old= output-indicator-context= break-rewrites? find-renames? irreversible-delete find-copies? " +
		"find-copies-harder no-renames rename-empty follow minimal ignore-all-space ignore-space-change ignore-space-at-eol ignore-cr-at-eol ignore-blank-lines ignore-matching-lines= " +
		"indent-heuristic patience histogram diff-algorithm= anchored= word-diff? word-diff-regex= color-words? color-moved? color-moved-ws= relative? text exit-code quiet no-ext-diff " +
		"no-textconv ignore-submodules? submodule? pickaxe-all pickaxe-regex rotate-to= skip-to= find-object= diff-filter= cached staged merge-base no-index cc combined-all-paths ours theirs base "
	gitDiffFlags, gitDiffValues, gitDiffGlued = "puswbazRDW0123", "SGlI", "UMCB"

	gitLogLong = gitDiffLong + "oneline graph no-graph all branches? tags? remotes? glob= exclude= decorate? decorate-refs= decorate-refs-exclude= clear-decorations source use-mailmap mailmap log-size " +
		"max-count= skip= since= after= until= before= since-as-filter= author= committer= grep= grep-reflog= all-match invert-grep regexp-ignore-case extended-regexp fixed-strings basic-regexp perl-regexp " +
		"merges no-merges min-parents= max-parents= no-min-parents no-max-parents first-parent exclude-first-parent-only not bisect reflog walk-reflogs merge boundary simplify-by-decoration show-pulls " +
		"full-history dense sparse simplify-merges ancestry-path? date-order author-date-order topo-order reverse no-walk? do-walk pretty? format? abbrev-commit no-abbrev-commit encoding= expand-tabs? " +
		"no-expand-tabs notes? no-notes relative-date date= parents children left-right left-only right-only cherry cherry-mark cherry-pick count timestamp objects quiet numbered summary email committer " +
		"diff-merges= no-diff-merges remerge-diff dd ignore-missing stdin full-diff remove-empty unpacked disk-usage? "
	gitLogFlags, gitLogValues = gitDiffFlags + "iEFPgmtq", gitDiffValues + "nL"

	gitStrategies = "ours recursive resolve octopus subtree ort"
	gitCommits    = "contains contains= no-contains no-contains= merged merged= no-merged no-merged=" // at the end they have no value
	gitPaths      = "pathspec-from-file= pathspec-file-nul "
	gitMerging    = "stat summary log? squash commit edit cleanup= ff ff-only rerere-autoupdate autostash allow-unrelated-histories progress signoff verify quiet verbose strategy= strategy-option= "
	gitFetching   = "verbose quiet all append atomic force keep tags prune prune-tags dry-run progress depth= deepen= unshallow shallow-since= shallow-exclude= update-shallow set-upstream " +
		"multiple recurse-submodules? ipv4 ipv6 show-forced-updates refetch auto-maintenance auto-gc write-commit-graph write-fetch-head filter= "
)

// gitOptions returns the grammar of a subcommand. None of its options names a
// program, a repository directory, a template or an output file. The operands that
// name a new directory are output paths.
func gitOptions(name string) (o options, ok bool) {
	strategy := map[string]string{"s": gitStrategies, "strategy": gitStrategies}
	switch name {
	case "status":
		return options{flags: "vsbz", glued: "uM", long: "verbose short branch show-stash ahead-behind porcelain? long null untracked-files? ignored? ignore-submodules? column? renames find-renames?"}, true
	case "diff", "diff-tree", "diff-index", "diff-files", "stash show":
		return options{flags: gitDiffFlags + "rtmc", values: gitDiffValues, glued: gitDiffGlued, long: gitDiffLong + "root stdin no-commit-id include-untracked only-untracked"}, true
	case "log", "show", "whatchanged", "rev-list", "shortlog", "reflog", "stash list":
		o := options{flags: gitLogFlags, values: gitLogValues, glued: gitDiffGlued, long: gitLogLong, numbers: true}
		if name == "shortlog" {
			o = options{flags: "cnse", glued: "w", long: gitLogLong + "group="}
		}
		return o, true
	case "add":
		return options{flags: "nvipefuNA", long: gitPaths + "dry-run verbose interactive patch edit force update renormalize intent-to-add all refresh ignore-errors ignore-missing sparse chmod="}, true
	case "commit":
		return options{
			flags: "qvesaiponz", values: "mFCct", glued: "u", unknown: "m message",
			long: gitPaths + "quiet verbose file= author= date= message= reedit-message= reuse-message= fixup= squash= reset-author trailer= signoff template= edit cleanup= status all include interactive patch only " +
				"verify dry-run short branch ahead-behind porcelain long null amend post-rewrite untracked-files? allow-empty allow-empty-message no-gpg-sign",
		}, true
	case "branch":
		return options{
			flags: "vqradDmMcClfi", values: "u", glued: "t",
			long: "verbose quiet track? set-upstream-to= unset-upstream color? remotes abbrev? all delete move copy list show-current create-reflog force column? sort= points-at= ignore-case format= " + gitCommits,
		}, true
	case "checkout", "switch":
		o := options{flags: "qmdfl23p", values: "bB", glued: "t", long: gitPaths + "guess overlay quiet recurse-submodules? progress merge conflict= detach track? force orphan= overwrite-ignore ignore-other-worktrees ours theirs patch ignore-skip-worktree-bits"}
		if name == "switch" {
			o.flags, o.values, o.long = "qmdf", "cC", o.long+" create= force-create= discard-changes"
		}
		return o, true
	case "restore":
		return options{flags: "SWqm23p", values: "s", long: gitPaths + "source= staged worktree ignore-unmerged overlay quiet recurse-submodules? progress merge conflict= ours theirs patch ignore-skip-worktree-bits"}, true
	case "reset":
		return options{flags: "qpN", long: gitPaths + "quiet refresh mixed soft hard merge keep recurse-submodules? patch intent-to-add"}, true
	case "clean":
		return options{flags: "qnfdxX", values: "e", long: "quiet dry-run force exclude="}, true
	case "rm":
		return options{flags: "nqfr", long: gitPaths + "dry-run quiet cached force ignore-unmatch sparse"}, true
	case "mv":
		return options{flags: "vnfk", long: "verbose dry-run force sparse"}, true
	case "stash", "stash push", "stash save":
		return options{flags: "kSpqua", values: "m", unknown: "m message", long: gitPaths + "keep-index staged patch quiet include-untracked all message="}, true
	case "stash pop", "stash apply", "stash drop", "stash clear", "stash branch":
		return options{flags: "q", long: "quiet index"}, true
	case "fetch":
		return options{flags: "vqaftpPknmu46", values: "j", long: gitFetching + "jobs= negotiate-only negotiation-tip= prefetch update-head-ok"}, true
	case "pull":
		return options{flags: "vqnaftpk46", values: "sX", glued: "rj", long: gitFetching + gitMerging + "jobs? rebase?", only: strategy}, true
	case "push":
		return options{flags: "vqdnfu46", long: "verbose quiet all branches mirror delete tags dry-run porcelain force force-with-lease? force-if-includes recurse-submodules= thin set-upstream progress prune verify follow-tags atomic ipv4 ipv6"}, true
	case "clone":
		return options{
			flags: "vqnls46", values: "job", outputFrom: 2, outputHere: true,
			long: "verbose quiet progress reject-shallow no-checkout checkout bare mirror local hardlinks no-hardlinks shared recurse-submodules? recursive? jobs= dissociate origin= branch= depth= shallow-since= shallow-exclude= " +
				"single-branch tags no-tags shallow-submodules ipv4 ipv6 filter= also-filter-submodules remote-submodules sparse",
		}, true
	case "ls-remote":
		return options{flags: "qth", long: "quiet tags heads branches refs get-url sort= exit-code symref"}, true
	case "merge":
		return options{flags: "neqv", values: "sXmF", unknown: "m message", long: gitMerging + "message= file= into-name= abort quit continue overwrite-ignore", only: strategy}, true
	case "rebase":
		return options{
			flags: "qvnfmi", values: "sXC", glued: "r", only: strategy,
			long: "onto= keep-base verify quiet verbose stat signoff committer-date-is-author-date reset-author-date ignore-date ignore-whitespace whitespace= force-rebase ff continue skip abort quit edit-todo show-current-patch " +
				"apply merge interactive rerere-autoupdate empty= autosquash update-refs autostash rebase-merges? fork-point strategy= strategy-option= root reapply-cherry-picks keep-empty",
		}, true
	case "cherry-pick", "revert":
		return options{flags: "nesx", values: "mX", only: strategy, long: "quit continue abort skip cleanup= commit edit signoff mainline= rerere-autoupdate strategy= strategy-option= ff allow-empty allow-empty-message keep-redundant-commits reference"}, true
	case "tag":
		return options{
			flags: "ldaefi", values: "mF", glued: "n", unknown: "m message",
			long: "list delete annotate message= file= edit cleanup= force create-reflog column? sort= points-at= format= color? ignore-case no-sign " + gitCommits,
		}, true
	case "remote":
		return options{flags: "v", long: "verbose"}, true
	case "remote add":
		return options{flags: "f", values: "tm", long: "fetch tags mirror?"}, true
	case "remote rename", "remote remove", "remote rm", "remote show", "remote prune", "remote get-url", "remote set-url", "remote set-head", "remote set-branches", "remote update":
		return options{flags: "nadp", long: "dry-run all push add delete auto prune progress"}, true
	case "submodule", "submodule status", "submodule init", "submodule deinit", "submodule summary", "submodule sync", "submodule set-url", "submodule absorbgitdirs":
		return options{flags: "qf", long: "quiet cached recursive force all files"}, true
	case "submodule add", "submodule update", "submodule set-branch":
		from := 0
		if name == "submodule add" {
			from = 2
		}
		return options{outputFrom: from, flags: "qfN", values: "b", long: "quiet force init remote no-fetch checkout merge rebase recommend-shallow recursive single-branch branch= name= depth= jobs= filter= progress default"}, true
	case "worktree add":
		return options{outputFrom: 1, flags: "fdq", values: "bB", long: "force detach checkout lock reason= track guess-remote orphan quiet"}, true
	case "worktree move":
		return options{outputFrom: 2, flags: "fv", long: "verbose force"}, true
	case "worktree", "worktree list", "worktree lock", "worktree prune", "worktree remove", "worktree repair", "worktree unlock":
		return options{flags: "fvnz", long: "porcelain verbose force dry-run expire= reason="}, true
	case "bisect", "bisect start", "bisect good", "bisect bad", "bisect new", "bisect old", "bisect skip", "bisect reset", "bisect log", "bisect terms", "bisect next":
		return options{long: "first-parent no-checkout term-good? term-bad? term-new? term-old?"}, true
	case "notes", "notes list", "notes show", "notes remove", "notes prune", "notes get-ref", "notes copy":
		return options{flags: "nvf", long: "ignore-missing force"}, true
	case "notes add", "notes append":
		return options{flags: "f", values: "mFcC", unknown: "m message", long: "allow-empty message= file= force"}, true
	}
	return gitPlumbing(name)
}

func gitPlumbing(name string) (o options, ok bool) {
	switch name {
	case "archive":
		return options{flags: "lv", long: "format= prefix= list verbose worktree-attributes", only: map[string]string{"format": "tar zip"}}, true
	case "init":
		return options{outputFrom: 1, outputHere: true, flags: "q", values: "b", long: "bare shared? quiet initial-branch= object-format="}, true
	case "config":
		return options{flags: "lz", long: "global system local worktree get get-all get-regexp get-urlmatch list null name-only includes show-origin show-scope type= bool int bool-or-int path default="}, true
	case "grep":
		return options{
			flags: "viwaIrEGFPnhHlLzocpWq", values: "CBAefm", numbers: true,
			long: "cached no-index untracked exclude-standard recurse-submodules invert-match ignore-case word-regexp text recursive max-depth= extended-regexp basic-regexp fixed-strings perl-regexp line-number column full-name " +
				"files-with-matches name-only files-without-match null only-matching count color? break heading context= before-context= after-context= threads= show-function function-context and or not quiet all-match max-count= no-textconv",
		}, true
	case "blame", "annotate":
		return options{flags: "bfnpctlsew", values: "SL", glued: "CM", long: "incremental root show-stats progress score-debug show-name show-number porcelain line-porcelain show-email ignore-rev= ignore-revs-file= color-lines color-by-age minimal contents= abbrev? since= date= first-parent"}, true
	case "rev-parse":
		return options{flags: "q", long: "verify quiet short? abbrev-ref? symbolic symbolic-full-name all branches? tags? remotes? show-toplevel show-prefix show-cdup show-superproject-working-tree show-object-format? git-dir git-common-dir " +
			"absolute-git-dir git-path= is-inside-git-dir is-inside-work-tree is-bare-repository is-shallow-repository shared-index-path not flags no-flags revs-only no-revs since= until= default= sq path-format= local-env-vars"}, true
	case "ls-files":
		return options{flags: "ztvfcdmoisku", values: "xX", long: "cached deleted modified others ignored stage killed directory eol empty-directory unmerged resolve-undo exclude= exclude-from= exclude-per-directory= exclude-standard full-name recurse-submodules error-unmatch with-tree= abbrev? debug deduplicate sparse format="}, true
	case "ls-tree":
		return options{flags: "drtzl", long: "long name-only name-status object-only full-name full-tree format= abbrev?"}, true
	case "describe":
		return options{long: "contains debug all tags long first-parent abbrev? exact-match candidates= match= exclude= always dirty? broken?"}, true
	case "merge-base":
		return options{flags: "a", long: "all octopus independent is-ancestor fork-point"}, true
	case "cat-file":
		return options{flags: "epts", long: "batch? batch-check? batch-all-objects buffer follow-symlinks unordered use-mailmap mailmap"}, true
	case "apply":
		// Inside a .git, git apply writes there: it needs no work tree.
		return options{output: "directory", outputHere: true, flags: "N3zRvq", values: "pC", long: "exclude= include= no-add stat numstat summary check index intent-to-add cached apply 3way whitespace= ignore-space-change ignore-whitespace reverse unidiff-zero reject allow-overlap verbose quiet recount directory= allow-empty"}, true
	case "for-each-ref":
		return options{long: "count= format= color? sort= points-at= ignore-case " + gitCommits}, true
	case "show-ref":
		return options{flags: "dq", glued: "s", long: "tags heads branches verify head dereference hash? abbrev? quiet exists"}, true
	case "name-rev":
		return options{long: "name-only tags refs= exclude= all annotate-stdin undefined always"}, true
	case "fsck":
		return options{flags: "v", long: "verbose unreachable dangling tags root cache reflogs full connectivity-only strict progress name-objects"}, true
	case "gc":
		return options{flags: "q", long: "quiet prune? cruft aggressive auto force keep-largest-pack"}, true
	case "check-ignore":
		return options{flags: "qvzn", long: "quiet verbose stdin non-matching no-index"}, true
	case "count-objects":
		return options{flags: "vH", long: "verbose human-readable"}, true
	case "symbolic-ref":
		return options{flags: "qd", long: "quiet short delete recurse"}, true
	case "hash-object":
		return options{flags: "w", values: "t", long: "stdin"}, true
	case "version":
		return options{long: "build-options"}, true
	case "help":
		return options{flags: "ag", long: "all guides"}, true
	}
	return options{}, false
}
