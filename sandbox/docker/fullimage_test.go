package docker

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

const fullImage = "warmbox/sandbox:full"

// documents are tasks with data and office documents: one program reads what another
// writes. The directory has a picture.png of 640 × 480 pixels.
var documents = []struct{ name, cmd, stdout string }{
	{"spreadsheets", `cat >x.py <<'EOF'
import openpyxl, pandas
sales = pandas.DataFrame({"month": ["Jan", "Feb"], "sum": [1200, 800]})
with pandas.ExcelWriter("sales.xlsx", engine="openpyxl") as w: sales.to_excel(w, sheet_name="2026", index=False)
book = openpyxl.load_workbook("sales.xlsx")
sheet = book["2026"]
sheet["B4"] = "=SUM(B2:B3)"
sheet["A4"].font = openpyxl.styles.Font(bold=True)
book.save("sales.xlsx")
print(openpyxl.load_workbook("sales.xlsx")["2026"]["B4"].value)
print(pandas.read_excel("sales.xlsx", nrows=2).groupby("month")["sum"].sum().to_dict())
with pandas.ExcelWriter("chart.xlsx", engine="xlsxwriter") as w:
    sales.to_excel(w, sheet_name="s")
    chart = w.book.add_chart({"type": "column"})
    chart.add_series({"values": "=s!$C$2:$C$3"})
    w.sheets["s"].insert_chart("E2", chart)
print(len(openpyxl.load_workbook("chart.xlsx")["s"]._charts))
EOF
python3 x.py`, "=SUM(B2:B3)\n{'Feb': 800, 'Jan': 1200}\n1\n"},
	{"plots and pictures", `cat >p.py <<'EOF'
import matplotlib.pyplot as plt
from PIL import Image, ImageDraw, ImageFont
plt.plot([1, 2, 3], [2, 4, 8], label="Größe"); plt.legend(); plt.title("$x^2$")
plt.savefig("plot.png", dpi=100); plt.savefig("plot.svg"); plt.savefig("plot.pdf")
i = Image.open("plot.png")
print(i.format, i.size, len(i.convert("RGB").getcolors(1 << 20)) > 10)
d = ImageDraw.Draw(i); d.text((10, 10), "draft", font=ImageFont.truetype("DejaVuSans.ttf", 20))
for f in "jpg", "webp", "gif", "tiff": i.convert("RGB").resize((64, 48)).save("small." + f)
print([Image.open("small." + f).size for f in ("jpg", "webp", "gif", "tiff")])
EOF
python3 p.py && pdffonts plot.pdf | grep -o DejaVuSans | uniq`, "PNG (640, 480) True\n[(64, 48), (64, 48), (64, 48), (64, 48)]\nDejaVuSans\n"},
	{"letters", `cat >d.py <<'EOF'
import docx
d = docx.Document()
d.add_heading("Report", 1); d.add_paragraph("Umsatz in € stieg.", style="List Bullet"); d.add_picture("picture.png")
d.add_table(1, 2).cell(0, 1).text = "cell"
d.save("report.docx")
r = docx.Document("report.docx")
print([p.text for p in r.paragraphs], r.tables[0].cell(0, 1).text, len(r.inline_shapes))
EOF
python3 d.py`, "['Report', 'Umsatz in € stieg.', ''] cell 1\n"},
	{"slides", `cat >s.py <<'EOF'
import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
p = pptx.Presentation()
s = p.slides.add_slide(p.slide_layouts[1])
s.shapes.title.text = "Quarter"; s.placeholders[1].text = "Größer"
s.shapes.add_picture("picture.png", 0, 0, height=Inches(2))
c = CategoryChartData(); c.categories = ["a", "b"]; c.add_series("s", (1, 2))
s.shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Inches(3), Inches(3), c)
p.save("deck.pptx")
for x in pptx.Presentation("deck.pptx").slides[0].shapes:
    print(x.text if x.has_text_frame else x.chart.plots[0].categories[1] if x.has_chart else x.image.size)
EOF
python3 s.py`, "Quarter\nGrößer\n(640, 480)\nb\n"},
	{"PDF", `cat >r.py <<'EOF'
import pypdf
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Image, PageBreak, Paragraph, SimpleDocTemplate, Table
style = getSampleStyleSheet()["Normal"]
SimpleDocTemplate("r.pdf").build([Paragraph("first page", style), Table([["a", "b"]]), Image("picture.png", 200, 150),
    PageBreak(), Paragraph("second page", style)])
r = pypdf.PdfReader("r.pdf")
print(len(r.pages), r.pages[1].extract_text().strip())
w = pypdf.PdfWriter(); w.add_page(r.pages[1].rotate(90)); w.encrypt("secret")
w.write("locked.pdf")
EOF
python3 r.py && qpdf --check r.pdf | tail -2 | head -1 && pdftotext r.pdf - | head -1 && pdfinfo r.pdf | grep Pages:
qpdf --password=secret --decrypt locked.pdf open.pdf && qpdf --empty --pages r.pdf 1 open.pdf -- both.pdf && pdftotext -nopgbrk both.pdf - | grep page
pdftoppm -png -r 50 -f 1 -l 1 r.pdf page && python3 -c 'from PIL import Image; print(Image.open("page-1.png").size)'`,
		"2 second page\nNo syntax or stream encoding errors found; the file may still contain\nfirst page\nPages:           2\nfirst page\nsecond page\n(414, 585)\n"},
	{"web pages", `cat >w.py <<'EOF'
import http.server, pandas, requests, threading
from bs4 import BeautifulSoup
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Type", "text/html; charset=utf-8"); self.end_headers()
        self.wfile.write("<p class=x>Größe<p>two<table><tr><th>n<tr><td>7</table>".encode())
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=s.serve_forever, daemon=True).start()
r = requests.get("http://localhost:%d/" % s.server_port, timeout=10)
print(r.status_code, r.encoding)
for parser in "html.parser", "lxml": print(BeautifulSoup(r.text, parser).select_one("p.x").find(string=True), end=" ")
print(pandas.read_html(r.text)[0]["n"].sum())
EOF
python3 w.py`, "200 utf-8\nGröße Größe 7\n"},
	{"pandoc", `printf '# Title\n\nSome *text* with a [link](http://x.y/) and $x^2$.\n\n| a | b |\n|---|---|\n| 1 | ü |\n' >a.md
pandoc a.md -o a.docx && pandoc a.docx -t gfm --wrap=none -o b.md && cat b.md
python3 -c 'import docx; print(docx.Document("a.docx").paragraphs[0].style.name)'
pandoc a.md -s --metadata title=t -o a.html && pandoc a.html -t plain | head -1; pandoc a.md --metadata title=t -o a.epub && pandoc a.epub -t plain | grep -c Some`,
		"# Title\n\nSome *text* with a [link](http://x.y/) and *x*<sup>2</sup>.\n\n| a   | b   |\n|-----|-----|\n| 1   | ü   |\nHeading 1\nt\n1\n"},
	{"node and jq", `node -e 'const fs = require("fs"); fs.writeFileSync("n.json", JSON.stringify([..."äbc"].map((c, i) => ({c, i}))));
import("node:crypto").then(m => console.log(m.createHash("sha256").update("x").digest("hex").slice(0, 8)))' && jq -c 'map(.c)' n.json`, "2d711642\n[\"ä\",\"b\",\"c\"]\n"},
	{"git", `git init -q r && cd r && cp ../picture.png . && git add -A && git commit -qm picture && git status --short | wc -l && git show --stat --format=%an | tail -1`,
		"0\n 1 file changed, 0 insertions(+), 0 deletions(-)\n"},
	{"pip finds all requirements met", `pip check`, "No broken requirements found.\n"},
}

// TestFullImageWorksWithDocuments has one default box make and read documents of each
// kind. What a program prints to stderr counts too, so a warning fails the test.
func TestFullImageWorksWithDocuments(t *testing.T) {
	weekly.Only(t)
	spec := sandbox.Spec{Image: fullImage, Workspace: t.TempDir(), Memory: 2 << 30, Pids: 512, Network: "none"}
	box := startBox(t, spec)
	boxtest.Expect(t, box, `id -un; touch /usr/x 2>/dev/null || echo read-only; ls ~/.cache/matplotlib | cut -c-8
python3 -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("pptx"))' && touch .has-pptx
mkdir ~/docs && python3 -c 'from PIL import Image; Image.new("RGB", (640, 480)).save("/home/agent/docs/picture.png")'`, 0, "agent\nread-only\nfontlist\n")
	for _, w := range documents {
		t.Run(w.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(spec.Workspace, ".has-pptx")); w.name == "slides" && err != nil {
				t.Skip("the image was built without python-pptx (PIP_INDEX_URL=none)")
			}
			boxtest.Expect(t, box, "exec 2>&1; cd ~/docs; "+w.cmd, 0, w.stdout)
		})
	}
}

// TestBuildPassesItsArguments: an empty option leaves the Dockerfile's default.
func TestBuildPassesItsArguments(t *testing.T) {
	for _, c := range []struct {
		options BuildOptions
		want    string
	}{
		{BuildOptions{Target: "slim"}, ""},
		{BuildOptions{Target: "full", Base: "debian:12", Packages: []string{"ffmpeg", "gdb"}, PipIndex: "none"},
			`{"BASE":"debian:12","PACKAGES":"ffmpeg gdb","PIP_INDEX_URL":"none"}`},
	} {
		var got url.Values
		e := fake(t, func(r *http.Request) (*http.Response, error) {
			got = r.URL.Query()
			return reply(http.StatusOK, message{Stream: "done\n"})
		})
		if err := e.build(t.Context(), c.options, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if got.Get("target") != c.options.Target || got.Get("buildargs") != c.want {
			t.Errorf("target %q, arguments %q; want %q", got.Get("target"), got.Get("buildargs"), c.want)
		}
	}
}

// pipStep matches the step of the Dockerfile that installs what Debian lacks.
var pipStep = regexp.MustCompile(`(?m)^ARG PIP_INDEX_URL=(?:.*\n)+?    fi\n`)

// TestFullImageInstallsOnlyPinnedWheels runs the step that installs from a package index,
// with an index in the image itself.
func TestFullImageInstallsOnlyPinnedWheels(t *testing.T) {
	weekly.Only(t)
	l := newLauncher(t, Config{})
	text, err := os.ReadFile("../../Dockerfile.sandbox")
	if err != nil {
		t.Fatal(err)
	}
	step := pipStep.FindString(string(text))
	index, pinned := new(strings.Builder), step
	for _, project := range []struct{ name, file, module, requires string }{
		{"python-pptx", "python_pptx-1.0.2", "pptx", "Requires-Dist: lxml\nRequires-Dist: typing-extensions>=4.9.0\n"},
		{"typing-extensions", "typing_extensions-4.12.2", "typing_extensions", ""},
	} {
		wheel := makeWheel(t, project.file, project.module, project.requires)
		file := "/tmp/index/" + project.name + "/" + project.file + "-py3-none-any.whl"
		fmt.Fprintf(index, "RUN mkdir -p %[1]s && echo %[2]s | base64 -d >%[3]s && echo '<a href=\"%[4]s\">%[4]s</a>' >%[1]s/index.html\n",
			path.Dir(file), base64.StdEncoding.EncodeToString(wheel), file, path.Base(file))
		hash := regexp.MustCompile("('" + project.name + "==.* --hash=sha256:)[0-9a-f]{64}'")
		if !hash.MatchString(pinned) {
			t.Fatalf("no hash of %s in %q", project.name, step)
		}
		pinned = hash.ReplaceAllString(pinned, fmt.Sprintf("${1}%x'", sha256.Sum256(wheel)))
	}
	before := "FROM " + fullImage + "\nUSER root\nRUN pip uninstall -q -y python-pptx typing-extensions 2>&1 | grep -v '^WARNING: Skipping'; true\n" + index.String()
	const local, leaveOut = "file:///tmp/index", "leave it out: warmbox image build --target full --pip-index none"
	for _, c := range []struct{ name, index, step, after, fails string }{
		{"same hashes", local, pinned, `pip check && python3 -c 'import pptx; print("pptx", pptx.made)'`, ""},
		{"other hashes", local, step, "true", "DO NOT MATCH THE HASHES"},
		{"no such index", "file:///tmp/nowhere", pinned, "true", "No matching distribution found"},
		{"left out", "none", pinned, `! python3 -c 'import pptx' 2>/dev/null && echo 'pptx here'`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			const tag = "warmbox-test/wheels"
			options := BuildOptions{Tag: tag, Dockerfile: []byte(before + c.step + "RUN " + c.after + "\n"), PipIndex: c.index}
			var lines []string
			err := l.BuildImage(t.Context(), options, func(s string) { lines = append(lines, s) })
			if c.fails == "" {
				if err != nil || !slices.Contains(lines, "pptx here") {
					t.Errorf("%v; lines %q", err, lines)
				}
				removeImage(t, l, tag)
			} else if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(err.Error(), leaveOut) {
				t.Errorf("got %v; want %q and %q", err, c.fails, leaveOut)
			}
		})
	}
}

// makeWheel returns a wheel with one module, which says that it is here.
func makeWheel(t *testing.T, name, module, requires string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	project, version, _ := strings.Cut(name, "-")
	info := name + ".dist-info/"
	for _, f := range []struct{ name, text string }{
		{module + ".py", "made = 'here'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + project + "\nVersion: " + version + "\n" + requires},
		{info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", module + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = w.Write([]byte(f.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
