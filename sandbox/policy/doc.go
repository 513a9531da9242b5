// Package policy says what may run: which images a box may be made from, and
// which command lines may run in it. Its functions are pure: they look at words,
// never at an engine or a disk.
//
// Where a list of commands holds, three rules do, and each refuses what it does
// not know:
//
//	(a) A line starts only the programs that the list has. It is read as bash and
//	    as POSIX shells read it, and every simple command in it begins, word by
//	    word, with an entry.
//	(b) A program that can run another one through its arguments is judged by a
//	    closed grammar: its subcommands, its options, which of them take a value,
//	    and which values run nothing. An option that the grammar does not have is
//	    refused, whatever it does. See options, gitOptions and goFlags.
//	(c) A variable is set only if a closed table has its name and its value,
//	    whoever sets it: an assignment, a loop, env, make, exec's env or start's.
//	    Any other can choose which code runs. See variables.
//
// A user who is asked can stand in for an entry of the list, for (a). The owner
// can release a variable, from (c). The user is not asked about (b).
//
// A policy states intent. What is allowed may still do harm, and the box is what
// confines it: a program runs what is its nature, as make does with a makefile,
// go test with tests, and git with the hooks and settings of a repository. A
// program without a grammar that the list has, such as perl or rsync, may be given
// every option. The caller must run the very string that was checked, in a shell
// whose environment has no more than was checked, with a PATH whose directories
// commands cannot write.
package policy
