// The official Go client against a server: what a program does with a collection, from its making to its end.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const name = "go"
const uuid = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"

var ctx, near, wait = context.Background(), []float32{1, 0.05, 0, 0}, qdrant.PtrOf(true)
var client *qdrant.Client

type book struct {
	Id     any
	Vector struct {
		Text  []float32
		Parts [][]float32
		Words *struct {
			Indices []uint32
			Values  []float32
		}
	}
	Payload map[string]any
}

// Fails the program unless what was found is what was expected.
func same(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		log.Panicf("found %v, expected %v", found, expected)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

func done(err error) { must(0, err) }

// Whole numbers are integers, as in the other clients.
func plain(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		return must(value.Float64())
	case []any:
		for n := range value {
			value[n] = plain(value[n])
		}
	case map[string]any:
		for key := range value {
			value[key] = plain(value[key])
		}
	}
	return value
}

func books() (books []book) {
	file := must(os.Open("../books.json"))
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	done(decoder.Decode(&books))
	for _, book := range books {
		plain(book.Payload)
	}
	return books
}

func (b book) id() *qdrant.PointId {
	if id, ok := b.Id.(json.Number); ok {
		return qdrant.NewIDNum(must(strconv.ParseUint(string(id), 10, 64)))
	}
	return qdrant.NewID(b.Id.(string))
}

func (b book) point() *qdrant.PointStruct {
	vectors := map[string]*qdrant.Vector{"text": qdrant.NewVectorDense(b.Vector.Text)}
	if b.Vector.Parts != nil {
		vectors["parts"] = qdrant.NewVectorMulti(b.Vector.Parts)
	}
	if words := b.Vector.Words; words != nil {
		vectors["words"] = qdrant.NewVectorSparse(words.Indices, words.Values)
	}
	return &qdrant.PointStruct{Id: b.id(), Vectors: qdrant.NewVectorsMap(vectors), Payload: qdrant.NewValueMap(b.Payload)}
}

type hasId interface{ GetId() *qdrant.PointId }

func ids[P hasId](points []P) (ids []string) {
	for _, point := range points {
		if id := point.GetId(); id.GetUuid() != "" {
			ids = append(ids, id.GetUuid())
		} else {
			ids = append(ids, strconv.FormatUint(id.GetNum(), 10))
		}
	}
	return ids
}

func create() {
	text := &qdrant.VectorParams{
		Size: 4, Distance: qdrant.Distance_Cosine,
		QuantizationConfig: qdrant.NewQuantizationScalar(&qdrant.ScalarQuantization{Type: qdrant.QuantizationType_Int8}),
	}
	parts := &qdrant.VectorParams{Size: 2, Distance: qdrant.Distance_Dot, MultivectorConfig: &qdrant.MultiVectorConfig{}}
	done(client.CreateCollection(ctx, &qdrant.CreateCollection{
		CollectionName:      name,
		VectorsConfig:       qdrant.NewVectorsConfigMap(map[string]*qdrant.VectorParams{"text": text, "parts": parts}),
		SparseVectorsConfig: qdrant.NewSparseVectorsConfig(map[string]*qdrant.SparseVectorParams{"words": {}}),
	}))
	kinds := map[string]qdrant.FieldType{
		"genre": qdrant.FieldType_FieldTypeKeyword, "shelf": qdrant.FieldType_FieldTypeKeyword, "year": qdrant.FieldType_FieldTypeInteger,
		"price": qdrant.FieldType_FieldTypeFloat, "sold": qdrant.FieldType_FieldTypeBool, "place": qdrant.FieldType_FieldTypeGeo,
		"printed": qdrant.FieldType_FieldTypeDatetime, "isbn": qdrant.FieldType_FieldTypeUuid, "title": qdrant.FieldType_FieldTypeText,
	}
	for field, kind := range kinds {
		must(client.CreateFieldIndex(ctx, &qdrant.CreateFieldIndexCollection{
			CollectionName: name, FieldName: field, FieldType: &kind, Wait: wait,
		}))
	}
	info := must(client.GetCollectionInfo(ctx, name))
	same(len(info.PayloadSchema), len(kinds))
	same(info.Config.Params.VectorsConfig.GetParamsMap().Map["text"].QuantizationConfig.GetScalar() != nil, true)
	same(must(client.CollectionExists(ctx, name)), true)
	same(slices.Contains(must(client.ListCollections(ctx)), name), true)
}

func write() {
	var points []*qdrant.PointStruct
	var all []*qdrant.PointId
	for _, book := range books() {
		points, all = append(points, book.point()), append(all, book.id())
	}
	result := must(client.Upsert(ctx, &qdrant.UpsertPoints{CollectionName: name, Points: points, Wait: wait}))
	same(result.Status, qdrant.UpdateStatus_Completed)
	kept := must(client.Get(ctx, &qdrant.GetPoints{
		CollectionName: name, Ids: all, WithPayload: qdrant.NewWithPayload(true), WithVectors: qdrant.NewWithVectors(true),
	}))
	same(len(kept), len(points))
	for _, point := range kept {
		book := books()[slices.IndexFunc(all, func(id *qdrant.PointId) bool { return id.String() == point.Id.String() })]
		same(fmt.Sprint(point.Payload), fmt.Sprint(qdrant.NewValueMap(book.Payload)))
		vectors := point.Vectors.GetVectors().Vectors
		same(len(vectors["text"].GetDenseVector().Data), 4)
		if words := book.Vector.Words; words != nil {
			same(vectors["words"].GetSparseVector().Indices, words.Indices)
		}
		same(vectors["parts"] != nil, book.Vector.Parts != nil)
	}
}

func ask(query *qdrant.QueryPoints) []*qdrant.ScoredPoint {
	query.CollectionName = name
	return must(client.Query(ctx, query))
}

func query() {
	three, one := qdrant.PtrOf(uint64(3)), qdrant.PtrOf(uint64(1))
	text, words := qdrant.PtrOf("text"), qdrant.PtrOf("words")
	nearest := qdrant.NewQueryDense(near)
	sparse := qdrant.NewQuerySparse([]uint32{5, 9}, []float32{1, 2})
	same(ids(ask(&qdrant.QueryPoints{Query: nearest, Using: text, Limit: three})), []string{"1", "2", uuid})
	same(ids(ask(&qdrant.QueryPoints{Query: sparse, Using: words})), []string{"3", "2", uuid, "1"})
	multi := qdrant.NewQueryMulti([][]float32{{1, 0}, {0, 1}})
	same(ask(&qdrant.QueryPoints{Query: multi, Using: qdrant.PtrOf("parts")})[0].Score, float32(2))
	liked := qdrant.NewQueryRecommend(&qdrant.RecommendInput{
		Positive: []*qdrant.VectorInput{qdrant.NewVectorInputID(qdrant.NewIDNum(1))},
		Negative: []*qdrant.VectorInput{qdrant.NewVectorInputID(qdrant.NewIDNum(3))},
	})
	same(ids(ask(&qdrant.QueryPoints{Query: liked, Using: text, Limit: one})), []string{"2"})
	prefetch := []*qdrant.PrefetchQuery{
		{Query: nearest, Using: text, Limit: three},
		{Query: sparse, Using: words, Limit: three},
	}
	fused := ask(&qdrant.QueryPoints{Prefetch: prefetch, Query: qdrant.NewQueryFusion(qdrant.Fusion_RRF)})
	same(ids(fused)[0], "2")
	same(fmt.Sprintf("%.5f", fused[0].Score), "0.66667")
	formula := qdrant.NewQueryFormula(&qdrant.Formula{Expression: qdrant.NewExpressionSum(&qdrant.SumExpression{Sum: []*qdrant.Expression{
		qdrant.NewExpressionVariable("$score"), qdrant.NewExpressionCondition(qdrant.NewMatch("shelf", "b")),
	}})})
	same(ids(ask(&qdrant.QueryPoints{Prefetch: prefetch[:1], Query: formula})), []string{uuid, "1", "2"})
	late := qdrant.NewQueryOrderBy(&qdrant.OrderBy{Key: "year", Direction: qdrant.PtrOf(qdrant.Direction_Desc)})
	same(ids(ask(&qdrant.QueryPoints{Query: late, Limit: one})), []string{"4"})
	batch := must(client.QueryBatch(ctx, &qdrant.QueryBatchPoints{CollectionName: name, QueryPoints: []*qdrant.QueryPoints{
		{CollectionName: name, Query: nearest, Using: text, Limit: one}, {CollectionName: name, Query: sparse, Using: words, Limit: one},
	}}))
	same([][]string{ids(batch[0].Result), ids(batch[1].Result)}, [][]string{{"1"}, {"3"}})
	groups := must(client.QueryGroups(ctx, &qdrant.QueryPointGroups{
		CollectionName: name, Query: nearest, Using: text, GroupBy: "shelf", GroupSize: qdrant.PtrOf(uint64(2)), Limit: qdrant.PtrOf(uint64(2)),
	}))
	same([][]string{ids(groups[0].Hits), ids(groups[1].Hits)}, [][]string{{"1", "2"}, {uuid, "3"}})
	same(groups[0].Id.GetStringValue(), "a")
}

func filter() {
	numbers := qdrant.Range{Gte: qdrant.PtrOf(-50.0), Lt: qdrant.PtrOf(1999.0)}
	before := qdrant.DatetimeRange{Lt: timestamppb.New(time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC))}
	inOne := qdrant.Filter{Must: []*qdrant.Condition{
		qdrant.NewMatch("name", "one"), qdrant.NewRange("words", &qdrant.Range{Gt: qdrant.PtrOf(100.0)}),
	}}
	cases := []struct {
		condition *qdrant.Condition
		expected  []string
	}{
		{qdrant.NewMatch("genre", "animal"), []string{"1", "2"}},
		{qdrant.NewMatchKeywords("genre", "travel", "fable"), []string{"1", "4", "9007199254740991"}},
		{qdrant.NewMatchExcept("genre", "animal", "cooking"), []string{"1", "4", "9007199254740991"}},
		{qdrant.NewMatchInt("year", 9007199254740991), []string{"4"}},
		{qdrant.NewRange("year", &numbers), []string{"1", "3"}},
		{qdrant.NewMatchBool("sold", true), []string{"1", "3"}},
		{qdrant.NewDatetimeRange("printed", &before), []string{"1"}},
		{qdrant.NewMatch("isbn", "550e8400-e29b-41d4-a716-446655440002"), []string{"2"}},
		{qdrant.NewGeoRadius("place", 52.5, 13.4, 1000), []string{"1"}},
		{qdrant.NewMatchText("title", "brown"), []string{"1", "3"}},
		{qdrant.NewMatchPhrase("title", "quick brown"), []string{"1"}},
		{qdrant.NewMatchTextAny("title", "dog bread"), []string{"2", "3"}},
		{qdrant.NewNestedFilter("chapters", &inOne), []string{"1"}},
		{qdrant.NewHasID(qdrant.NewIDNum(1), qdrant.NewID(uuid)), []string{"1", uuid}},
		{qdrant.NewHasVector("parts"), []string{"1", "2", "3"}},
		{qdrant.NewIsEmpty("genre"), []string{uuid}},
		{qdrant.NewIsNull("ended"), []string{"1"}},
		{qdrant.NewValuesCount("genre", &qdrant.ValuesCount{Gte: qdrant.PtrOf(uint64(2))}), []string{"1", "4"}},
	}
	for _, one := range cases {
		filter := &qdrant.Filter{Must: []*qdrant.Condition{one.condition}}
		same(ids(must(client.Scroll(ctx, &qdrant.ScrollPoints{CollectionName: name, Filter: filter}))), one.expected)
		same(must(client.Count(ctx, &qdrant.CountPoints{CollectionName: name, Filter: filter})), uint64(len(one.expected)))
	}
}

func scroll() {
	var seen []string
	var offset *qdrant.PointId
	for {
		page, next := pages(offset)
		seen = append(seen, ids(page)...)
		if offset = next; offset == nil {
			break
		}
	}
	same(seen, []string{"1", "2", "3", "4", "9007199254740991", uuid})
	hits := must(client.Facet(ctx, &qdrant.FacetCounts{CollectionName: name, Key: "genre", Exact: wait}))
	same(len(hits), 4)
	same(hits[0].Count, uint64(2))
}

func pages(offset *qdrant.PointId) ([]*qdrant.RetrievedPoint, *qdrant.PointId) {
	page, next, err := client.ScrollAndOffset(ctx, &qdrant.ScrollPoints{CollectionName: name, Limit: qdrant.PtrOf(uint32(4)), Offset: offset})
	done(err)
	return page, next
}

func payload(id *qdrant.PointId) map[string]*qdrant.Value {
	found := must(client.Get(ctx, &qdrant.GetPoints{CollectionName: name, Ids: []*qdrant.PointId{id}, WithPayload: qdrant.NewWithPayload(true)}))
	return found[0].Payload
}

func change() {
	last := qdrant.NewID(uuid)
	only := qdrant.NewPointsSelector(last)
	set := func(fields map[string]any) *qdrant.SetPayloadPoints {
		return &qdrant.SetPayloadPoints{CollectionName: name, Wait: wait, Payload: qdrant.NewValueMap(fields), PointsSelector: only}
	}
	must(client.SetPayload(ctx, set(map[string]any{"more": map[string]any{"a": 1.5}})))
	same(len(payload(last)), 3)
	must(client.DeletePayload(ctx, &qdrant.DeletePayloadPoints{CollectionName: name, Wait: wait, Keys: []string{"more"}, PointsSelector: only}))
	must(client.OverwritePayload(ctx, set(map[string]any{"shelf": "d"})))
	same(payload(last)["shelf"].GetStringValue(), "d")
	must(client.ClearPayload(ctx, &qdrant.ClearPayloadPoints{CollectionName: name, Wait: wait, Points: only}))
	same(len(payload(last)), 0)
	parts := qdrant.NewVectorsMap(map[string]*qdrant.Vector{"parts": qdrant.NewVectorMulti([][]float32{{3, 4}})})
	must(client.UpdateVectors(ctx, &qdrant.UpdatePointVectors{
		CollectionName: name, Wait: wait, Points: []*qdrant.PointVectors{{Id: last, Vectors: parts}},
	}))
	must(client.DeleteVectors(ctx, &qdrant.DeletePointVectors{
		CollectionName: name, Wait: wait, PointsSelector: only, Vectors: &qdrant.VectorsSelector{Names: []string{"words"}},
	}))
	seven := &qdrant.PointStruct{
		Id:      qdrant.NewIDNum(7),
		Vectors: qdrant.NewVectorsMap(map[string]*qdrant.Vector{"text": qdrant.NewVector(0, 0, 0, 1)}),
		Payload: qdrant.NewValueMap(map[string]any{"n": 1}),
	}
	results := must(client.UpdateBatch(ctx, &qdrant.UpdateBatchPoints{CollectionName: name, Wait: wait, Operations: []*qdrant.PointsUpdateOperation{
		qdrant.NewPointsUpdateUpsert(&qdrant.PointsUpdateOperation_PointStructList{Points: []*qdrant.PointStruct{seven}}),
		qdrant.NewPointsUpdateDeletePoints(&qdrant.PointsUpdateOperation_DeletePoints{Points: only}),
	}}))
	same(len(results), 2)
	filter := &qdrant.Filter{Must: []*qdrant.Condition{qdrant.NewMatchInt("n", 1)}}
	must(client.Delete(ctx, &qdrant.DeletePoints{CollectionName: name, Wait: wait, Points: qdrant.NewPointsSelectorFilter(filter)}))
	same(must(client.Count(ctx, &qdrant.CountPoints{CollectionName: name})), uint64(5))
}

func manage() {
	done(client.CreateAlias(ctx, "go-alias", name))
	done(client.RenameAlias(ctx, "go-alias", "go-other"))
	same(must(client.ListCollectionAliases(ctx, name)), []string{"go-other"})
	same(must(client.Count(ctx, &qdrant.CountPoints{CollectionName: "go-other"})), uint64(5))
	done(client.DeleteAlias(ctx, "go-other"))
	made := must(client.CreateSnapshot(ctx, name))
	same(must(client.ListSnapshots(ctx, name))[0].Name, made.Name)
	done(client.DeleteSnapshot(ctx, name, made.Name))
	same(strings.HasPrefix(must(client.HealthCheck(ctx)).Version, "1."), true)
}

// What a program is told: the code, and the words.
func fails(err error, code codes.Code, says string) {
	var told interface{ Unwrap() error }
	told, _ = err.(interface{ Unwrap() error })
	same(told != nil, true)
	same(status.Code(told.Unwrap()), code)
	same(strings.Contains(err.Error(), says), true)
}

func refused() {
	_, err := client.GetCollectionInfo(ctx, "nowhere")
	fails(err, codes.NotFound, "nowhere")
	_, err = client.Query(ctx, &qdrant.QueryPoints{CollectionName: name, Query: qdrant.NewQuery(1, 2), Using: qdrant.PtrOf("text")})
	fails(err, codes.InvalidArgument, "dim")
	fails(client.CreateCollection(ctx, &qdrant.CreateCollection{CollectionName: name}), codes.AlreadyExists, "already exists")
	large := qdrant.NewValueMap(map[string]any{"text": strings.Repeat("x", 40<<20)})
	_, err = client.SetPayload(ctx, &qdrant.SetPayloadPoints{
		CollectionName: name, Payload: large, PointsSelector: qdrant.NewPointsSelector(qdrant.NewIDNum(1)),
	})
	fails(err, codes.ResourceExhausted, "smaller batches")
	same(must(client.Count(ctx, &qdrant.CountPoints{CollectionName: name})), uint64(5))
}

func main() {
	port := must(strconv.Atoi(os.Getenv("RAMLET_GRPC_PORT")))
	client = must(qdrant.NewClient(&qdrant.Config{Host: "127.0.0.1", Port: port}))
	defer client.Close()
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"create", create}, {"write", write}, {"query", query}, {"filter", filter}, {"scroll", scroll},
		{"change", change}, {"manage", manage}, {"refused", refused},
	} {
		step.run()
		fmt.Println(step.name + ": ok")
	}
	done(client.DeleteCollection(ctx, name))
	same(must(client.CollectionExists(ctx, name)), false)
}
