package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A checker walks the syntax tree of a text as one kind of shell parses it. It knows
// the nodes that are allowed and refuses every other.
type checker struct {
	*rules
	*budget
	src  string
	lang syntax.LangVariant

	literal []span // parts of src without special characters
	hereDoc int    // where the first here-document with expansions begins; 0 if there is none
}

// A budget is shared by the checkers of a text and of the texts within it.
type budget struct {
	calls, depth int

	exported []string // variables in the environment of programs
	text     string   // an exported variable with more than plain text; "" if there is none
	makes    bool     // the line starts make

	directoryUnknown bool // find -execdir or -okdir chooses the directory of the command
}

type span struct{ from, to int }

const useSimple = "Use simple commands with && || ; | ! ( ) { }, if, while, until, for x in …, case, $(…), and redirects to /tmp or /dev/null."

func (k *checker) check() error {
	file, err := parse(k.src, k.lang)
	if err != nil {
		return k.unparsed(err)
	}
	if len(file.Stmts) == 0 {
		return denied("", "the text contains no command")
	}
	if err := k.stmts(file.Stmts); err != nil {
		return err
	}
	return k.continuations()
}

// parse returns a panic of the parser as an error: a text that makes the parser
// panic is refused and must not end the server.
func parse(text string, lang syntax.LangVariant) (file *syntax.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the parser failed: %v", r)
		}
	}()
	// No name: it would be a prefix of the parser's error.
	return syntax.NewParser(syntax.Variant(lang)).Parse(&shallowReader{text}, "")
}

func (k *checker) unparsed(err error) error {
	if err == errDeep {
		return k.tooDeep()
	}
	if k.lang == syntax.LangPOSIX {
		return denied(useSimple, "the command is not allowed, since POSIX shells cannot parse it: %v", err)
	}
	if e, ok := errors.AsType[syntax.ParseError](err); ok { // a mistake, so no other construct would help
		return denied("", "the command cannot be parsed: line %d, column %d: %s", e.Pos.Line(), e.Pos.Col(), e.Text)
	}
	return denied(useSimple, "the command cannot be parsed: %v", err)
}

func (k *checker) tooDeep() error {
	return denied("Make it simpler, or make several calls.", "the command must not be nested more than %d levels deep", maxDepth)
}

// nested runs f one level deeper.
func (k *checker) nested(f func() error) error {
	if k.depth++; k.depth > maxDepth {
		return k.tooDeep()
	}
	defer func() { k.depth-- }()
	return f()
}

// block checks a list of statements one level deeper.
func (k *checker) block(list []*syntax.Stmt) error {
	return k.nested(func() error { return k.stmts(list) })
}

func (k *checker) stmts(list []*syntax.Stmt) error {
	for _, s := range list {
		if err := k.stmt(s); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) stmt(s *syntax.Stmt) error {
	if s.Background || s.Coprocess || s.Disown {
		return denied("Remove the &; exec itself can run a command in the background.", "a background command (&) is not allowed: it would run on after the call")
	}
	for _, r := range s.Redirs {
		if err := k.redirect(r); err != nil {
			return err
		}
	}
	switch c := s.Cmd.(type) {
	case nil:
		return denied("", "a redirect without a command is not allowed")
	case *syntax.CallExpr:
		if len(c.Args) == 0 && len(s.Redirs) > 0 {
			return denied("", "a redirect without a command is not allowed")
		}
		return k.call(c)
	}
	return k.compound(s.Cmd)
}

func (k *checker) compound(c syntax.Command) error {
	switch c := c.(type) {
	case *syntax.BinaryCmd:
		return k.binary(c)
	case *syntax.Subshell:
		return k.block(c.Stmts)
	case *syntax.Block:
		return k.block(c.Stmts)
	case *syntax.IfClause:
		return k.nested(func() error { return k.ifClause(c) })
	case *syntax.WhileClause:
		return k.block(slices.Concat(c.Cond, c.Do))
	case *syntax.ForClause:
		return k.forClause(c)
	case *syntax.CaseClause:
		return k.nested(func() error { return k.caseClause(c) })
	case *syntax.TimeClause:
		return k.timeClause(c)
	}
	return denied(useSimple+" To set a variable, write it before the command, or pass it in the env of exec.", "%s is not allowed", describe(c))
}

func describe(c syntax.Command) string {
	switch c := c.(type) {
	case *syntax.FuncDecl:
		return "declaring a function"
	case *syntax.DeclClause:
		return c.Variant.Value
	case *syntax.ArithmCmd, *syntax.LetClause:
		return "arithmetic"
	case *syntax.TestClause:
		return "[["
	case *syntax.CoprocClause:
		return "coproc"
	}
	return "this kind of command"
}

// binary checks a chain of commands in the order in which it runs. In the syntax
// tree the last command is on top, and the depth is the length of the chain.
func (k *checker) binary(c *syntax.BinaryCmd) error {
	links := []*syntax.Stmt{}
	for {
		if c.Op == syntax.PipeAll {
			return denied("Write 2>&1 | instead.", "|& is not allowed: POSIX shells do not support it")
		}
		links = append(links, c.Y)
		left, ok := c.X.Cmd.(*syntax.BinaryCmd)
		if x := c.X; !ok || x.Background || x.Coprocess || x.Disown || len(x.Redirs) > 0 {
			links = append(links, x)
			slices.Reverse(links)
			return k.stmts(links)
		}
		c = left
	}
}

func (k *checker) ifClause(c *syntax.IfClause) error {
	for ; c != nil; c = c.Else {
		if err := k.stmts(c.Cond); err != nil {
			return err
		}
		if err := k.stmts(c.Then); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) forClause(c *syntax.ForClause) error {
	loop, ok := c.Loop.(*syntax.WordIter)
	if !ok || c.Select || c.Braces || !loop.InPos.IsValid() {
		return denied("Write for x in …; do …; done.", "this kind of loop is not allowed")
	}
	if err := k.set(setting{name: loop.Name.Value}); err != nil {
		return err
	}
	if err := k.words(loop.Items); err != nil {
		return err
	}
	return k.block(c.Do)
}

func (k *checker) caseClause(c *syntax.CaseClause) error {
	if err := k.words([]*syntax.Word{c.Word}); err != nil {
		return err
	}
	for _, item := range c.Items {
		if item.Op != syntax.Break {
			return denied("End each pattern's commands with ;;.", "%s is not allowed: POSIX shells do not support it", item.Op)
		}
		if err := k.words(item.Patterns); err != nil {
			return err
		}
		if err := k.stmts(item.Stmts); err != nil {
			return err
		}
	}
	return nil
}

// timeClause checks the keyword of bash like the program time, which other shells
// start.
func (k *checker) timeClause(c *syntax.TimeClause) error {
	name := word{text: "time", raw: "time", plain: true, static: true, glob: -1}
	if err := k.program([]word{name}); err != nil {
		return err
	}
	if c.Stmt == nil {
		return denied("", "time without a command is not allowed")
	}
	return k.block([]*syntax.Stmt{c.Stmt})
}

// call checks a simple command.
func (k *checker) call(c *syntax.CallExpr) error {
	if k.calls++; k.calls > maxCalls {
		return denied("Make several calls.", "the command must not have more than %d simple commands", maxCalls)
	}
	for _, a := range c.Assigns {
		if err := k.assign(a, len(c.Args) > 0); err != nil {
			return err
		}
	}
	if len(c.Args) == 0 {
		return nil
	}
	if err := k.words(c.Args); err != nil {
		return err
	}
	words := make([]word, len(c.Args))
	for i, w := range c.Args {
		words[i] = k.read(w)
	}
	if harmlessSet(words) {
		return nil
	}
	return k.run(words)
}

// run checks a program with its arguments, whether a shell or another program starts
// it.
func (k *checker) run(words []word) error {
	if err := k.program(words); err != nil {
		return err
	}
	name := base(words[0].text) // a path names the same program
	if guard := guardOf(name); guard != nil {
		if name != words[0].text {
			words = slices.Clone(words)
			words[0].text = name
		}
		return k.guarded(guard, words)
	}
	return builtin(words)
}

func (k *checker) assign(a *syntax.Assign, exported bool) error {
	if a.Append || a.Naked || a.Index != nil || a.Array != nil {
		return denied("Write name=value.", "arrays and += are not allowed in an assignment: POSIX shells do not support them")
	}
	s := setting{name: a.Name.Value, known: true, exported: exported}
	if a.Value != nil {
		w := k.read(a.Value)
		s.value, s.known = w.text, w.static
	}
	if err := k.set(s); err != nil {
		return err
	}
	if a.Value == nil {
		return nil
	}
	return k.words([]*syntax.Word{a.Value})
}

// continuations checks the backslashes at the end of lines. Shells join the lines
// before they read words, and they differ in how they then read a $ or a < at the
// end of the first line. So there must be a blank before the backslash, or plain
// characters on both sides. In a comment a backslash does not join lines, but the
// parser assumes that it does.
func (k *checker) continuations() error {
	text := k.masked()
	for at := range len(text) - 1 {
		if text[at] != '\\' || text[at+1] != '\n' {
			continue
		}
		before, after := strings.TrimRight(text[:at], `\`), text[at+2:]
		comment := endsInComment(before)
		if escaped := (at-len(before))%2 == 1; escaped && !comment {
			continue
		}
		alone := len(before) == at && joinable(before, after)
		if !alone || comment || k.hereDoc > 0 && at > k.hereDoc {
			return denied("Put a blank before the backslash that ends a line.", "a backslash at the end of a line is not allowed after %q, in a comment or in a here-document", before[max(0, len(before)-1):])
		}
	}
	return nil
}

func joinable(before, after string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_./,@%+-" + digits
	if before == "" || strings.ContainsAny(before[len(before)-1:], " \t\n") {
		return true
	}
	return after != "" && strings.Contains(plain, before[len(before)-1:]) && strings.Contains(plain, after[:1])
}

// endsInComment reports whether the last line of text may end in a comment. A # in
// double quotes counts as one too.
func endsInComment(text string) bool {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || strings.IndexByte(" \t;&|()<>`", line[i-1]) >= 0) {
			return true
		}
	}
	return false
}

// masked returns the text with its literal parts replaced by x.
func (k *checker) masked() string {
	text := []byte(k.src)
	for _, s := range k.literal {
		for i := s.from; i < s.to; i++ {
			text[i] = 'x'
		}
	}
	return string(text)
}
