// Package policy decides which images a box may use and which command lines may
// run in it. Its functions are pure: they check text and access neither an engine
// nor a disk.
//
// A command line is checked by three rules. Each refuses what it does not know:
//
//	(a) A line may start only the programs of the allowlist. The line is parsed as
//	    bash and as a POSIX shell, and every simple command in it must begin, word
//	    by word, with an entry.
//	(b) The arguments of a program that can run other programs must follow a closed
//	    grammar of its subcommands, its options, the options that take a value, and
//	    the values that run nothing. An option that is not in the grammar is
//	    refused, whatever it does. Options and operands that the grammar calls output
//	    paths must not lead to a .git. See options, gitOptions, goFlags and output.
//	(c) A variable may be set only if a closed table has its name and value. This
//	    holds for assignments, loops, env, make, and the env of exec and start. Any
//	    other variable could choose which code runs. See variables.
//
// For (a), a user's approval can replace an entry of the allowlist: see Judge. For
// (c), the owner of the server can release a variable. Nothing replaces (b).
//
// A policy states intent, and the box is what confines a command. An allowed
// program may still do harm: make runs a makefile, go test runs tests, git runs the
// hooks and settings of a repository. A listed program without a grammar, such as
// perl or rsync, may get any option. The caller must run exactly the string that
// was checked, in a shell whose environment has only the variables that were
// checked, with a PATH of directories that commands cannot write.
package policy
