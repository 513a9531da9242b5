package policy

import (
	"regexp"
	"slices"
	"strings"
)

// gitShows checks the formats in which git shows a commit or a reference. Some
// placeholders verify a signature, for which git starts gpg, so only known ones are
// allowed. A format name that git does not define is refused: git reads its meaning
// from the settings.
func gitShows(subcommand string, given []option) error {
	refs := slices.Contains([]string{"branch", "tag", "for-each-ref", "ls-remote", "ls-files", "ls-tree"}, subcommand)
	for _, g := range given {
		ok := true
		switch {
		case subcommand == "archive":
		case g.name == "format" && refs:
			ok = harmlessRefFormat(g.value)
		case g.name == "format", g.name == "pretty":
			ok = harmlessPretty(g.value)
		case g.name == "sort" && refs:
			ok = refField.MatchString(strings.TrimPrefix(g.value, "-"))
		case g.name == "group":
			ok = harmlessGroup(g.value)
		}
		if !ok {
			return denied("Use placeholders such as %h %an %ad %s %d, %(refname) and %(subject), or a name such as oneline. Write %% for a % before a blank.",
				"the value %s of --%s is not allowed: it may start gpg to verify a signature", g.value, g.name)
		}
	}
	return nil
}

// prettyNames are the formats of git itself, in full.
const prettyNames = "oneline short medium full fuller reference email mboxrd raw"

// placeholder matches the text that is allowed after a % in a format of commits. It
// excludes G, with which git shows a signature.
var placeholder = regexp.MustCompile(`^(?:[-+ ]?(?:[HhTtPpnmdDsfbBeNS]|[ac][nNeElLdDrtiIsh]|g[DdnNeEs]|C(?:red|green|blue|reset|\([a-zA-Z0-9#, ]+\))|x[0-9a-fA-F]{2}|` +
	`w\([0-9,]*\)|\((?:decorate|describe|trailers)(?::[^%()]*(?:%(?:x[0-9a-fA-F]{2}|n)[^%()]*)*)?\))|[<>]{1,2}\|?\([-0-9a-z, ]+\))`)

func harmlessPretty(format string) bool {
	if format == "" || slices.Contains(strings.Fields(prettyNames), format) {
		return true
	}
	if !strings.HasPrefix(format, "format:") && !strings.HasPrefix(format, "tformat:") && !strings.Contains(format, "%") {
		return false
	}
	return harmlessPlaceholders(format)
}

// harmlessPlaceholders checks the text after each %, whether or not git reads it as
// the beginning of a placeholder.
func harmlessPlaceholders(format string) bool {
	for {
		_, rest, ok := strings.Cut(format, "%")
		if !ok {
			return true
		}
		literal := strings.HasPrefix(rest, "%")
		if literal {
			rest = rest[1:]
		}
		begins := strings.TrimLeft(rest, "-+ ")
		if literal && strings.HasPrefix(begins, "G") || !literal && !placeholder.MatchString(rest) {
			return false
		}
		format = rest
	}
}

// harmlessGroup checks the value by which shortlog groups commits.
func harmlessGroup(by string) bool {
	return by == "author" || by == "committer" || strings.HasPrefix(by, "trailer:") && !strings.Contains(by, "%") ||
		(strings.HasPrefix(by, "format:") || strings.Contains(by, "%")) && harmlessPlaceholders(by)
}

// refField matches the fields of a reference or of a file of the index, except
// signature.
var refField = regexp.MustCompile(`^\*?(?:refname|objecttype|objectsize|objectname|objectmode|deltabase|upstream|push|symref|HEAD|worktreepath|ahead-behind|is-base|tree|parent|numparent|object|type|tag|` +
	`(?:author|committer|tagger|creator)(?:name|email|date)?|subject|body|trailers|contents|raw|flag|align|end|if|then|else|color|path|stage|eolinfo|eolattr|describe|version|v)(?::[^%()]*)?$`)

func harmlessRefFormat(format string) bool {
	for {
		_, rest, ok := strings.Cut(format, "%(")
		if !ok {
			return true
		}
		field, after, ok := strings.Cut(rest, ")")
		if !ok || !refField.MatchString(field) {
			return false
		}
		format = after
	}
}
